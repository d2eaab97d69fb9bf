/**
 * Translate: one sentence, watched step by step, with the search as controls and changes by hand.
 */

import * as address from '../address.js';
import { alignmentOf, ofTranslation, wordsAreUseful } from '../alignment.js';
import * as api from '../api.js';
import { busy } from '../busy.js';
import { debounce, h, reducedMotion } from '../dom.js';
import { forAnotherSentence, isEdited, readEdits, requestOf, writeEdits } from '../edits.js';
import { Highlight } from '../highlight.js';
import { visible } from '../labels.js';
import { EditPanel } from '../panels/edit_panel.js';
import { FinishedPanel } from '../panels/finished_panel.js';
import { MapPanel } from '../panels/map_panel.js';
import { NextWord } from '../panels/next_word.js';
import { panel } from '../panels/panel.js';
import { ParsePanel } from '../panels/parse_panel.js';
import { Reading } from '../panels/reading.js';
import { SearchControls } from '../panels/search_controls.js';
import { SentenceForm } from '../panels/sentence_form.js';
import { TreePanel } from '../panels/tree_panel.js';
import { Player } from '../player.js';
import { Presenter } from '../present.js';
import { END, SearchRun } from '../search_run.js';
import { FILTERS, LONG_TEXT, RANKING, readSearch, sent, writeSearch } from '../search_settings.js';

const UNKNOWN = '<unk>';
/** While a search with more steps is running, what is shown is drawn anew after this many milliseconds only. */
const [LONG_SEARCH, REDRAW] = [40, 400];
/** Milliseconds after which drawing lets the browser do other things before it goes on. */
const PATIENCE = 15;

export default class TranslateView {
  constructor(context) {
    this.context = context;
    this.requested = '';
    this.plays = true;
    this.baselines = new Map();
    this.run = null;
    this.highlight = new Highlight();
    const { force } = this;
    this.form = new SentenceForm(context.models, {
      submit: (text) => this.submit(text),
      pickModel: (name) => this.pickModel(name),
      fail: (message) => context.fail(message && new Error(message)),
    });
    this.player = new Player((steps) => this.showStep(steps));
    this.controls = new SearchControls(context.settings, {
      preview: (search, name) => this.preview(search, name),
      commit: (search) => this.commit(search),
    });
    this.reading = new Reading({
      highlight: this.highlight,
      player: this.player,
      pickUnit: (unit) => this.go({ unit }),
    });
    this.nextWord = new NextWord({ force, forceText: this.forceText });
    this.map = new MapPanel({ highlight: this.highlight, pickHead: (head) => this.go({ map: head }) });
    this.parse = new ParsePanel();
    this.tree = new TreePanel({ force });
    this.finished = new FinishedPanel({
      pick: (index) => this.go({ pick: index || null }),
      draw: (count) => this.go({ draws: count > 1 ? count : null, step: null, pick: null }),
    });
    this.edit = new EditPanel({ change: (edits) => this.go({ ...writeEdits(edits), pick: null, step: null }) });
    const parts = [this.reading, this.parse, this.tree, this.nextWord, this.map, this.finished, this.edit];
    this.results = h(
      'div',
      { class: 'results', hidden: true },
      parts.map(({ element }) => element),
    );
    this.invitation = h(
      'p',
      { class: 'invitation' },
      'Enter a sentence, or choose an example, and watch the model translate it step by step.',
    );
    this.presenter = new Presenter(
      () => parts.map(({ element }) => element).filter(({ hidden }) => !hidden),
      (by) => {
        this.player.pause();
        this.player.go(this.player.steps + by);
      },
    );
    this.printed = h('p', { class: 'print-only' });
    this.resize = debounce(200, () => this.render());
    addEventListener('resize', this.resize);
    this.element = h(
      'div',
      { class: 'view translate' },
      this.form.element,
      h(
        'div',
        { class: 'beside' },
        h('div', {}, this.printed, this.presenter.element, this.invitation, this.results),
        panel('Search', { class: 'search' }, this.controls.element),
      ),
    );
  }

  close() {
    this.presenter.toggle(false);
    removeEventListener('resize', this.resize);
    this.player.pause();
    this.abort?.abort();
  }

  /** Offer examples that were found since. */
  showExamples() {
    this.form.show(this.model.name);
  }

  /** @param {Object<string, string>} values of the address */
  async update(values) {
    const { models, settings } = this.context;
    this.model =
      models.find(({ name }) => name === values.model) ?? models.find(({ state }) => state === 'ready') ?? models[0];
    if (!this.model) throw new Error('The service has no model.');
    this.values = values;
    this.search = readSearch(values, settings, this.model.search);
    this.edits = readEdits(values);
    this.form.show(this.model.name, values.text);
    this.controls.show(this.search, this.model.search, this.model.languages);
    const request = {
      model: this.model.name,
      text: values.text ?? '',
      search: sent(this.search, settings),
      n_best: this.hypotheses(),
      ...requestOf(this.edits),
    };
    const key = JSON.stringify(request);
    if (!values.text && this.model.has_source) return undefined;
    await this.context.ready(this.model);
    if (key === this.requested) {
      if (!this.player.isPlaying) this.player.go(address.stepOf(values) ?? this.run?.length ?? 0);
      return this.render();
    }
    this.requested = key;
    return this.translate(request);
  }

  /** How many hypotheses to ask for. */
  hypotheses() {
    const { kind, size, samples } = this.search;
    if ((this.values.text ?? '').length > LONG_TEXT) return 1; // the attention of more would be too much
    const drawn = kind === 'sample' ? Number(this.values.draws ?? 1) || 1 : 1;
    return Math.min({ beam: size, mbr: samples, sample: drawn }[kind] ?? 1, this.context.limits.n_best ?? 1);
  }

  async translate(request) {
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const run = new SearchRun(request);
    const wanted = address.stepOf(this.values);
    const plays = this.plays && wanted === null && !reducedMotion();
    this.plays = false;
    this.announced = 0;
    this.followed = 0;
    this.player.pause();
    this.results.classList.add('working');
    try {
      for await (const event of api.translateStream(request, signal)) {
        if (event.event === 'error') throw new Error(event.data.error);
        run.take(event);
        this.run = run;
        if (event.event === 'start') this.begin(plays);
        this.player.isWaiting = !run.translation;
        this.player.setTotal(run.length);
        if (!plays && run.length) this.follow(wanted);
        if (event.event === 'progress') this.render();
      }
    } finally {
      if (!signal.aborted) this.results.classList.remove('working');
    }
    cancelAnimationFrame(this.frame);
    this.player.isWaiting = false;
    await this.readBaseline(request, signal);
    if (!plays || !run.length) this.player.go(wanted ?? run.length);
    this.render();
  }

  /** Show the newest step, or the wanted one, with the next picture that the screen shows. */
  follow(wanted) {
    if (this.run.length > LONG_SEARCH && performance.now() < this.followed + REDRAW) return;
    this.followed = performance.now();
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.player.go(wanted ?? this.run.length));
  }

  begin(plays) {
    this.results.hidden = false;
    this.invitation.hidden = true;
    this.player.setTotal(0);
    if (plays) this.player.start();
  }

  /** What the model says without the changes by hand. */
  async readBaseline(request, signal) {
    const { model, text, search } = request;
    const key = JSON.stringify([model, text, search]);
    if (!isEdited(this.edits)) this.baselines.set(key, this.run.translation);
    else if (!this.baselines.has(key))
      this.baselines.set(key, (await api.translate({ model, text, search }, signal)).translations[0]);
    this.baseline = this.baselines.get(key);
  }

  showStep(steps) {
    const isEnd = steps >= (this.run?.length ?? 0);
    if (!this.player.isPlaying && !this.player.isWaiting && this.run?.translation)
      address.change({ step: isEnd ? null : steps });
    this.render();
  }

  /** Show the search up to the current step. */
  render() {
    const { run } = this;
    if (!run?.start) return;
    const { steps } = this.player;
    const { values } = this;
    const isOver = run.translation && steps >= run.length;
    const pick = Number(address.read().values.pick ?? 0);
    const picked = isOver && pick ? (run.translation.alternatives[pick - 1] ?? null) : null;
    const unit = values.unit ?? (wordsAreUseful(run.translation) ? 'words' : 'tokens');
    const alignment = alignmentOf(run, steps, unit, picked);
    const scene = {
      model: this.model,
      run,
      steps,
      search: this.search,
      edits: this.edits,
      unit,
      alignment,
      picked,
      baseline: this.baseline,
      head: this.headOf(values),
      draws: this.hypotheses(),
    };
    scene.ofHead = this.alignmentOfHead(scene, isOver);
    this.scene = scene;
    this.printed.textContent = `${this.model.name} (${this.model.description}): ${run.request.text}`;
    this.announce(alignment, isOver);
    busy(this.draw(scene));
  }

  /** The head of the map that the address names, such as 2.1; null for the mean that translations have. */
  headOf({ map }) {
    const [layers, heads] = this.model.heads_of?.cross ?? [0, 0];
    const [layer, head] = (map ?? '').split('.').map(Number);
    return this.model.shown_heads && layer >= 1 && layer <= layers && head >= 1 && head <= heads ? `${layer}.${head}` : null;
  }

  /** The alignment by the chosen head of a finished output; null until its weights are there. */
  alignmentOfHead({ head, run, unit, picked }, isOver) {
    if (!head || !isOver) return null;
    const translation = picked ?? run.translation;
    if (this.headsOf !== translation) {
      this.headsOf = translation;
      this.headWeights = null;
      const body = { model: this.model.name, text: run.request.text, target_ids: translation.ids, ...requestOf(this.edits) };
      const { prefix_ids: _, ...request } = body;
      api
        .heads(request)
        .then(({ heads }) => {
          this.headWeights = heads.filter(({ kind }) => kind === 'cross');
          if (this.headsOf === translation) this.render();
        })
        .catch(this.context.fail);
    }
    const found = this.headWeights?.find((one) => `${one.layer}.${one.head}` === head);
    if (!found) return null;
    return ofTranslation({ ...translation, attention: found.weights.slice(0, translation.tokens.length) }, unit);
  }

  /** Draw all panels, the most important first; those that follow wait where a text is so long that this takes long. */
  async draw(scene) {
    let start = performance.now();
    for (const part of [this.reading, this.parse, this.tree, this.nextWord, this.map, this.finished, this.edit]) {
      if (performance.now() - start > PATIENCE) {
        await new Promise((resolve) => setTimeout(resolve));
        if (this.scene !== scene) return; // there is something newer to draw
        start = performance.now();
      }
      part.update(scene);
    }
  }

  /** Say the words that have been added, once. */
  announce({ target }, isOver) {
    if (isOver && this.announced >= 0) {
      this.context.announce(`Finished: ${this.run.translation.text}`);
      this.announced = -1;
    } else if (!isOver && target.length > this.announced && this.announced >= 0) {
      this.context.announce(target.slice(this.announced).map(visible).join(' '));
      this.announced = target.length;
    }
  }

  go(changes, { push = true } = {}) {
    this.context.fail(null);
    address.change(changes, { push });
    return this.update(address.read().values).catch(this.context.fail);
  }

  submit(text) {
    this.plays = true;
    this.requested = '';
    this.go({
      text,
      step: null,
      pick: null,
      ...(text === this.values.text ? {} : writeEdits(forAnotherSentence(this.edits))),
      model: this.model.name,
    });
  }

  pickModel(model) {
    this.plays = true;
    const own = Object.fromEntries(
      Object.keys(address.read().values)
        .filter((name) => name.startsWith('s.'))
        .map((name) => [name, null]),
    );
    this.go({ model, ...own, prefix: null, blocked: null, attention: null, off: null, step: null, pick: null });
  }

  /** A slider moves: what follows from it without a new search is shown at once. */
  preview(search, name) {
    if (!this.scene) return;
    const scene = { ...this.scene, search };
    if (RANKING.has(name)) this.finished.update(scene);
    if (FILTERS.has(name)) this.nextWord.update(scene);
  }

  commit(search) {
    const { settings } = this.context;
    this.go({ ...writeSearch(search, settings, this.model.search), step: null, pick: null });
  }

  /** Go on from a beginning of the output. */
  force = (ids) => {
    const prefix = ids.at(-1) === undefined ? [] : ids;
    this.go({ ...writeEdits({ ...this.edits, prefix }), step: null, pick: null });
  };

  /** Go on from a beginning and a word that the person wrote. */
  forceText = async (text, ids) => {
    try {
      const added = await api.tokens(this.model.name, { text, side: 'target' });
      if (added.tokens.includes(UNKNOWN))
        throw new Error(`The model does not know “${text}”: it has no token for it. Enter another word.`);
      this.force([...ids, ...added.ids.filter((_, index) => added.tokens[index] !== END)]);
    } catch (error) {
      this.context.fail(error);
    }
  };
}
