/**
 * The page: loads what the service offers, shows the view that the address names, and opens others.
 */

import * as address from './address.js';
import * as api from './api.js';
import { busy } from './busy.js';
import { h, replace } from './dom.js';

/** The views, each in a file of its own that is loaded when it is opened. */
const VIEWS = {
  text: { title: 'Translate', file: './views/text.js' },
  translate: { title: 'Step by step', file: './views/translate.js' },
  walk: { title: 'Walk', file: './views/walk.js' },
  heads: { title: 'Heads', file: './views/heads.js' },
  embeddings: { title: 'Embeddings', file: './views/embeddings.js' },
  compare: { title: 'Compare', file: './views/compare.js' },
  picture: { title: 'Picture', file: './views/picture.js' },
  training: { title: 'Training', file: './views/training.js' },
};
/** What is kept when another view is opened. */
const KEPT = ['model', 'text', 'off', 'theme'];

/** Seconds to wait for models that are being loaded. */
const PATIENCE = 60;
const EXAMPLE_ATTEMPTS = 5;

const main = document.getElementById('main');
let shown = { name: null, view: null };
/** Counts the changes of the address: only the last one is shown. */
let turns = 0;

/** What every view is given. */
const context = {
  /** The models whose sources are texts. */
  models: [],
  /** Those that read pictures, frames or sound. */
  readers: [],
  /** All of them. */
  served: [],
  settings: [],
  limits: {},
  /** Say something to a screen reader. */
  announce: (text) => {
    document.getElementById('announcements').textContent = text;
  },
  /** A model that can translate now; an error that says why it cannot. */
  ready: async (model) => {
    if (model.state === 'ready') return model;
    await readModels();
    const now = context.served.find(({ name }) => name === model.name) ?? model;
    if (now.state === 'ready') return now;
    throw new Error(now.problem ?? `${now.name} has no weights yet: watch it in Training, or choose another model.`);
  },
  /** Show an error, or with an empty message none. */
  fail: (error) => {
    if (error?.name !== 'AbortError') showError(error);
  },
};

function showError(error) {
  document.querySelector('.error')?.remove();
  if (!error) return;
  main.prepend(h('p', { class: 'error', role: 'alert' }, error.message ?? String(error)));
}

/** Whether a view has a model to show. */
function isOffered(view) {
  if (view === 'training') return true;
  return view === 'picture' ? context.readers.length > 0 : context.models.length > 0 || !context.readers.length;
}

function showNavigation(current, values) {
  const kept = Object.fromEntries(KEPT.map((name) => [name, values[name]]));
  const list = document.getElementById('views');
  if (!list.firstChild) {
    const links = Object.entries(VIEWS).map(([name, { title }]) => h('li', {}, h('a', { 'data-view': name }, title)));
    list.append(h('ul', {}, links));
  }
  for (const link of list.querySelectorAll('a')) {
    const { view } = link.dataset;
    link.parentElement.hidden = !isOffered(view);
    link.setAttribute('href', address.format({ view, values: kept }));
    if (view === current) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

function showScheme(theme) {
  const root = document.documentElement;
  root.dataset.theme = theme ?? '';
  const next = { '': 'light', light: 'dark', dark: '' }[theme ?? ''];
  replace(
    document.getElementById('scheme'),
    h(
      'button',
      {
        type: 'button',
        class: 'quiet',
        'aria-label': `Colors: ${theme || 'automatic'}. Change`,
        title: 'Colors: automatic, light, dark',
        on: {
          click: () => {
            address.change({ theme: next });
            route();
            document.querySelector('#scheme button').focus();
          },
        },
      },
      { '': '◐', light: '☀', dark: '☾' }[theme ?? ''] ?? '◐',
    ),
  );
}

/** Show what the address says. */
function route() {
  return busy(showAddress());
}

async function showAddress() {
  turns += 1;
  const turn = turns;
  const { view: wanted, values } = address.read();
  const name = VIEWS[wanted] && isOffered(wanted) ? wanted : Object.keys(VIEWS).find(isOffered);
  showScheme(values.theme);
  showNavigation(name, values);
  showError(null);
  if (shown.name !== name) {
    const { default: View } = await import(VIEWS[name].file);
    if (turn !== turns) return;
    shown.view?.close?.();
    shown = { name, view: new View(context) };
    document.title = `${VIEWS[name].title} · weft`;
    replace(main, h('h1', { class: 'unseen' }, VIEWS[name].title), shown.view.element);
  }
  if (name !== wanted) history.replaceState(null, '', address.format({ view: name, values }));
  await shown.view.update(values).catch((error) => turn === turns && context.fail(error));
  if (turn !== turns) return;
  showNavigation(name, address.read().values);
}

/** Ask for a key in a dialog. */
function askForKey(message) {
  return new Promise((resolve) => {
    const input = h('input', { type: 'password', id: 'key', autocomplete: 'off', required: true });
    const dialog = h(
      'dialog',
      { class: 'key', 'aria-labelledby': 'key-label' },
      h(
        'form',
        { method: 'dialog' },
        h('p', {}, `This service is only for those who have a key (${message}). Whoever runs it can give you one; it is kept until this tab is closed.`),
        h('label', { for: 'key', id: 'key-label' }, 'Key'),
        input,
        h(
          'p',
          { class: 'buttons' },
          h('button', { value: 'use', class: 'primary' }, 'Use this key'),
          h('button', { value: '', formnovalidate: true }, 'Cancel'),
        ),
      ),
    );
    dialog.addEventListener('close', () => {
      resolve(dialog.returnValue === 'use' ? input.value : null);
      dialog.remove();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Read anew which models there are; what is not known of a model that has not been loaded is filled in. */
async function readModels() {
  const { models, limits } = await api.models();
  const search = Object.fromEntries(context.settings.map((setting) => [setting.name, setting.default]));
  const unknown = { search, examples: [], description: '', has_source: true };
  const served = models.map((model) => ({ ...unknown, ...model }));
  const readsText = ({ reads = 'text' }) => reads === 'text';
  const lists = { served, models: served.filter(readsText), readers: served.filter((model) => !readsText(model)) };
  for (const [name, list] of Object.entries(lists)) context[name].splice(0, context[name].length, ...list);
  Object.assign(context, { limits });
}

/** Wait for models that are being loaded, but not for ever. */
async function waitForModels() {
  for (let attempt = 0; attempt < PATIENCE; attempt += 1) {
    await readModels();
    const loading = context.served.filter(({ state }) => state === 'loading');
    if (!loading.length) return;
    replace(main, h('p', { class: 'loading' }, `Loading ${loading.map(({ name }) => name).join(', ')} …`));
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

async function start() {
  api.onKeyNeeded(askForKey);
  context.settings = (await api.settings()).search;
  await waitForModels();
  addEventListener('hashchange', route);
  document.getElementById('skip').addEventListener('click', (event) => {
    event.preventDefault();
    main.focus();
  });
  await route();
  await waitForExamples();
}

/** Examples are found a while after a model can translate. */
async function waitForExamples() {
  for (let attempt = 0; attempt < EXAMPLE_ATTEMPTS; attempt += 1) {
    if (context.models.every(({ state, examples }) => state !== 'ready' || examples.length)) return;
    await new Promise((resolve) => setTimeout(resolve, 1500 * (attempt + 1)));
    await readModels();
    shown.view.showExamples?.();
  }
}

/** Whatever else fails is said in words, too. */
addEventListener('unhandledrejection', (event) => {
  event.preventDefault();
  context.fail(event.reason);
});

start().catch((error) => replace(main, h('p', { class: 'error', role: 'alert' }, error.message)));
