/**
 * The log of a training run as series: what log.jsonl says, line by line.
 */

export class TrainingLog {
  constructor() {
    this.started = null;
    this.finished = null;
    this.steps = [];
    this.validations = [];
    this.step = 0;
  }

  /** Take in one line of the log. */
  take(line) {
    if (line.event === 'started') this.started = line;
    if (line.event === 'finished') this.finished = line;
    if (line.event === 'step') this.steps.push(line);
    if (line.event === 'validation') this.validations.push(line);
    this.step = Math.max(this.step, line.step ?? 0);
  }

  /** The loss of the training batches and of the validation set. */
  losses() {
    return [
      { name: 'training', points: points(this.steps, 'loss') },
      { name: 'validation', points: points(this.validations, 'loss'), style: 'dots' },
    ];
  }

  /** A series for each metric of the validations. */
  metrics() {
    const names = [...new Set(this.validations.flatMap(({ metrics }) => Object.keys(metrics ?? {})))];
    return names.map((name) => ({
      name,
      style: 'dots',
      points: this.validations
        .filter(({ metrics }) => Number.isFinite(metrics?.[name]))
        .map(({ step, metrics }) => [step, metrics[name]]),
    }));
  }

  learningRate() {
    return [{ name: 'learning rate', points: points(this.steps, 'learning_rate') }];
  }

  /** Target tokens a second. */
  speed() {
    const timed = this.steps.filter(({ seconds }) => seconds > 0);
    return [
      { name: 'tokens/s', points: timed.map(({ step, target_tokens: tokens, seconds }) => [step, tokens / seconds]) },
    ];
  }
}

function points(lines, field) {
  return lines.filter((line) => Number.isFinite(line[field])).map((line) => [line.step, line[field]]);
}
