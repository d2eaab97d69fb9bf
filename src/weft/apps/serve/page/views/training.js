/**
 * Training: the curves of a run as it is trained, its speed, and sample translations as they get better.
 */

import * as address from '../address.js';
import { ofTranslation, wordsAreUseful } from '../alignment.js';
import * as api from '../api.js';
import { debounce, h, replace, uniqueId } from '../dom.js';
import { attentionMap } from '../figures/attention_map.js';
import { curves } from '../figures/curves.js';
import { count, direction, duration, number } from '../labels.js';
import { panel, scrollable } from '../panels/panel.js';
import { TrainingLog } from '../training_log.js';

const STATES = { training: 'is being trained', finished: 'is trained', stopped: 'was stopped', damaged: 'is damaged' };

export default class TrainingView {
  constructor(context) {
    this.context = context;
    this.watched = null;
    const id = uniqueId('run');
    this.select = h('select', { id, on: { change: () => this.go({ run: this.select.value }) } });
    this.state = h('p', { class: 'verdict', role: 'status' });
    this.progress = h('progress', { 'aria-label': 'Progress of the training' });
    this.figures = { losses: h('div'), metrics: h('div'), speed: h('div'), learningRate: h('div') };
    this.samples = h('div', { class: 'samples' });
    this.samplesNote = h('p', { class: 'hint' });
    const part = (title, name, figure) =>
      panel(title, { figure: () => figure.querySelector('svg'), name }, scrollable(`${title}: the curves`, figure));
    this.parts = {
      losses: part('Loss', 'loss', this.figures.losses),
      metrics: part('Metrics on the validation set', 'metrics', this.figures.metrics),
      speed: part('Speed', 'speed', this.figures.speed),
      learningRate: part('Learning rate', 'learning-rate', this.figures.learningRate),
    };
    this.samplesPanel = panel(
      'Sample translations',
      { class: 'wide', help: 'The same sentences, translated again whenever better weights are saved.' },
      this.samplesNote,
      this.samples,
    );
    this.results = h('div', { class: 'results', hidden: true }, Object.values(this.parts), this.samplesPanel);
    this.element = h(
      'div',
      { class: 'view' },
      h('div', { class: 'model-line' }, h('label', { for: id }, 'Run'), this.select),
      this.state,
      this.progress,
      this.results,
    );
    this.draw = debounce(120, () => this.showCurves());
    addEventListener('resize', this.draw);
  }

  close() {
    removeEventListener('resize', this.draw);
    this.abort?.abort();
  }

  async update(values) {
    const { runs } = await api.training();
    replace(
      this.select,
      runs.map(({ name, state }) => h('option', { value: name }, state === 'training' ? `${name} (training)` : name)),
    );
    const run =
      runs.find(({ name }) => name === values.run) ?? runs.find(({ state }) => state === 'training') ?? runs[0];
    this.results.hidden = !run;
    this.progress.hidden = !run;
    this.state.textContent = run ? '' : 'There is no run to watch. Start one with `weft train … --watch`.';
    if (!run) return;
    this.select.value = run.name;
    if (this.watched === run.name) return;
    this.watched = run.name;
    this.watch(run).catch(this.context.fail);
  }

  /** Follow the log of a run until another one is chosen. */
  async watch(run) {
    this.abort?.abort();
    this.abort = new AbortController();
    this.log = new TrainingLog();
    this.run = run;
    replace(this.samples);
    this.samplesNote.textContent = 'No samples yet: they appear with the first saved weights.';
    this.showState();
    for await (const { event, data } of api.trainingStream(run.name, this.abort.signal)) {
      if (event === 'log') this.log.take(data);
      if (event === 'state') this.run = { ...this.run, ...data };
      if (event === 'samples') this.showSamples(data);
      if (event === 'end') this.run = { ...this.run, ...data };
      this.showState();
      this.draw();
    }
  }

  showState() {
    const { name, state, steps } = this.run;
    const step = Math.max(this.log.step, this.run.step ?? 0);
    const total = steps || this.log.started?.steps || step;
    const time = this.log.finished ? ` in ${duration(this.log.finished.seconds)}` : '';
    this.state.textContent = `${name} ${STATES[state] ?? state}: step ${count(step)} of ${count(total)}${time}.`;
    this.progress.max = Math.max(total, 1);
    this.progress.value = step;
  }

  showCurves() {
    if (!this.log || !this.results.isConnected) return;
    const steps = this.run.steps || this.log.started?.steps || 0;
    const show = (name, series, title, digits = 2) => {
      this.parts[name].hidden = !series.some(({ points }) => points.length);
      const width = this.figures[name].parentElement.clientWidth || 480;
      if (!this.parts[name].hidden) replace(this.figures[name], curves(series, { title, width, steps, digits }));
    };
    show('losses', this.log.losses(), 'Loss per target token');
    show('metrics', this.log.metrics(), 'Metrics');
    show('speed', this.log.speed(), 'Target tokens per second', 0);
    show('learningRate', this.log.learningRate(), 'Learning rate', 5);
  }

  showSamples({ step, translations, problem }) {
    this.samplesNote.textContent = problem ?? `Weights of step ${count(step ?? 0)}.`;
    if (problem) return;
    replace(
      this.samples,
      translations.map((translation) => {
        const alignment = ofTranslation(translation, wordsAreUseful(translation) ? 'words' : 'tokens');
        const { source, text, score } = translation;
        return h(
          'article',
          { class: 'sample' },
          h(
            'dl',
            {},
            h('dt', {}, 'Source'),
            h('dd', { dir: direction(source) }, source),
            h('dt', {}, `Output, score ${number(score)}`),
            h('dd', { class: 'sample-output', dir: direction(text) }, text || '(empty)'),
          ),
          alignment.weights && alignment.target.length
            ? scrollable(
                `Attention of ${text}`,
                attentionMap(
                  { ...alignment, label: `Attention of the sample ${source}` },
                  { width: Math.min(340, (this.samples.clientWidth || 340) - 30) },
                ),
              )
            : null,
        );
      }),
    );
  }

  go(changes) {
    address.change(changes, { push: true });
    return this.update(address.read().values).catch(this.context.fail);
  }
}
