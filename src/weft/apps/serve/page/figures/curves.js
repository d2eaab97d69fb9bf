/**
 * Curves over the steps of a training run. Each series has a line style of its own and its name beside its last point,
 * so that no color is needed to tell them apart.
 */

import { s, unit } from '../dom.js';
import { count, number } from '../labels.js';

const POINTS = 600;
/** Widths in sizes of the text: the smallest, and one below which there is little room for words. */
const [NARROWEST, NARROW] = [16, 26];

/**
 * @typedef {{name: string, points: [number, number][], style?: 'line'|'dashed'|'dots'}} Series points: (step, value)
 */

/**
 * @param {Series[]} series
 * @param {{title: string, width: number, steps?: number, digits?: number}} options steps: the end of the axis, if known
 * @returns {SVGSVGElement}
 */
export function curves(series, { title, width, steps = 0, digits = 2 }) {
  const em = unit();
  const drawn = series.filter(({ points }) => points.length).map((one) => ({ ...one, points: thin(one.points) }));
  const values = drawn.flatMap(({ points }) => points.map(([, value]) => value)).filter(Number.isFinite);
  const ticks = roundTicks(...(values.length ? bounds(values) : [0, 1]));
  const [low, high] = [ticks[0], ticks.at(-1)];
  const end = Math.max(steps, 1, ...drawn.flatMap(({ points }) => points.at(-1)[0]));
  const [w, height] = [Math.max(width, NARROWEST * em), em * 15];
  const isNarrow = w < NARROW * em;
  const isNamed = !isNarrow || drawn.length > 1; // where there is little room, the title names a single curve
  const [left, right, top, bottom] = [
    em * 4.2,
    isNamed ? em * (1 + 0.55 * Math.max(4, ...drawn.map(({ name }) => name.length))) : em,
    em * 2,
    em * 2,
  ];
  const x = (step) => left + ((w - left - right) * step) / end;
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low || 1));
  const names = spread(
    drawn.map(({ points }) => y(points.at(-1)[1])),
    em * 1.15,
    height - bottom,
  );
  const label = `${title}: ${drawn.map(({ name, points }) => `${name} ${number(points.at(-1)[1], digits)} at step ${points.at(-1)[0]}`).join(', ') || 'no values yet'}`;
  return s(
    'svg',
    {
      class: 'curves',
      role: 'img',
      'aria-label': label,
      viewBox: `0 0 ${Math.ceil(w)} ${Math.ceil(height)}`,
      width: Math.ceil(w),
      height: Math.ceil(height),
    },
    s('text', { class: 'title', x: em * 0.2, y: em * 1.1 }, isNarrow ? title : `${title}, by step`),
    ticks.map((value) =>
      s(
        'g',
        {},
        s('line', { class: 'rule', x1: left, x2: w - right, y1: y(value), y2: y(value) }),
        s(
          'text',
          { class: 'axis', x: left - em * 0.5, y: y(value), 'text-anchor': 'end', 'dominant-baseline': 'central' },
          tick(value),
        ),
      ),
    ),
    [0, 0.5, 1].map((part) =>
      s(
        'text',
        {
          class: 'axis',
          x: x(end * part),
          y: height - em * 0.6,
          'text-anchor': part === 1 ? 'end' : part ? 'middle' : 'start',
        },
        count(Math.round(end * part)),
      ),
    ),
    drawn.map(({ name, points, style = 'line' }, index) =>
      s(
        'g',
        { class: `series ${style} series-${index}` },
        s('title', {}, name),
        s('path', {
          d: points
            .map(([step, value], at) => `${at ? 'L' : 'M'}${x(step).toFixed(1)} ${y(value).toFixed(1)}`)
            .join(''),
        }),
        style === 'dots' || points.length === 1
          ? points.map(([step, value]) => s('circle', { cx: x(step), cy: y(value), r: em * 0.28 }))
          : null,
        isNamed ? s('text', { x: w - right + em * 0.5, y: names[index], 'dominant-baseline': 'central' }, name) : null,
      ),
    ),
  );
}

/** Round values, at most seven, evenly spaced from `low` or less to `high` or more. */
export function roundTicks(low, high) {
  const least = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999) * power;
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)) || 0);
}

/** The lowest and highest value, without the first few outliers of a long series. */
function bounds(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const high = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.995))];
  const low = sorted[0];
  return low === high ? [low - Math.abs(low) * 0.1 - 0.01, high + Math.abs(high) * 0.1 + 0.01] : [low, high];
}

/** At most this many points: the mean of each stretch; the last point unchanged. */
function thin(points) {
  if (points.length <= POINTS) return points;
  const size = Math.ceil(points.length / POINTS);
  const means = [];
  for (let start = 0; start < points.length - 1; start += size) {
    const part = points.slice(start, start + size);
    means.push([part.at(-1)[0], part.reduce((total, [, value]) => total + value, 0) / part.length]);
  }
  return [...means, points.at(-1)];
}

/** Heights of labels, moved apart where they would overlap, none below the last line. */
function spread(heights, least, lowest) {
  const order = heights.map((_, index) => index).sort((a, b) => heights[a] - heights[b]);
  const placed = [...heights];
  order.forEach((index, at) => {
    if (at) placed[index] = Math.max(placed[index], placed[order[at - 1]] + least);
  });
  const excess = Math.max(0, Math.max(...placed) - lowest);
  return placed.map((height) => height - excess);
}

/** A value of an axis, with three digits that count. */
function tick(value) {
  return Number(value.toPrecision(3)).toLocaleString('en-US', { maximumSignificantDigits: 3 }).replace('-', '−');
}
