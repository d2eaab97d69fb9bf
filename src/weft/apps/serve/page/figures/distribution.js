/**
 * The distribution of the next token, most likely first, with the cut of the sampling filters through it: solid bars can
 * be drawn, hollow ones were cut off.
 */

import { s, unit } from '../dom.js';
import { percent, shorten, visible } from '../labels.js';

const BARS = 40;
const LABELED = 40;

/** Where the axis may end: twice a round number. */
const TOPS = [0.002, 0.01, 0.02, 0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1];

/**
 * @param {{token: string, id: number}[]} candidates most likely first
 * @param {import('../sampling.js').Cut} cut
 * @param {{width: number, chosen: number|null}} options
 * @returns {SVGSVGElement}
 */
export function distribution(candidates, cut, { width, chosen }) {
  const em = unit();
  const shown = candidates.slice(0, BARS);
  const labels = shown.slice(0, LABELED).map(({ token }) => shorten(visible(token), 10));
  const below = em * (0.8 + 0.5 * Math.max(2, ...labels.map((label) => label.length)));
  const left = em * 2.6;
  const height = em * 8;
  const step = Math.max(Math.min((width - left - em) / Math.max(shown.length, 1), em * 3), em * 1.05);
  const largest = Math.max(...cut.probabilities);
  const top = TOPS.find((value) => value >= largest) ?? 1;
  const scale = (probability) => height * (probability / top);
  const size = [left + step * shown.length + em, em + height + below].map(Math.ceil);
  const base = em + height;
  const bars = shown.map((candidate, index) => {
    const kept = cut.kept[index];
    const isChosen = candidate.id === chosen;
    return s(
      'g',
      {},
      s('title', {}, `${visible(candidate.token)}: ${percent(cut.probabilities[index])}${kept ? '' : ', cut off'}`),
      s('rect', {
        class: `bar ${kept ? 'kept' : 'removed'} ${isChosen ? 'chosen' : ''}`,
        x: left + step * index + step * 0.14,
        width: step * 0.72,
        y: base - scale(cut.probabilities[index]),
        height: Math.max(scale(cut.probabilities[index]), 0.5),
      }),
      s(
        'text',
        {
          class: `bar-label ${isChosen ? 'chosen' : ''} ${kept ? '' : 'removed'}`,
          'text-anchor': 'end',
          transform: `translate(${left + step * (index + 0.62)} ${base + em * 0.7}) rotate(-60)`,
        },
        labels[index] ?? '',
      ),
    );
  });
  const falls = shown.findIndex((_, index) => index > 0 && cut.kept[index - 1] && !cut.kept[index]);
  const x = left + step * falls;
  return s(
    'svg',
    {
      class: 'distribution',
      role: 'img',
      'aria-label': `Probabilities of the ${shown.length} most likely next tokens; ${cut.kept.filter(Boolean).length} can be chosen`,
      viewBox: `0 0 ${size[0]} ${size[1]}`,
      width: size[0],
      height: size[1],
    },
    [0, 0.5, 1].map((part) =>
      s(
        'g',
        {},
        s('line', {
          class: 'rule',
          x1: left - em * 0.2,
          x2: size[0] - em,
          y1: base - height * part,
          y2: base - height * part,
        }),
        s(
          'text',
          {
            class: 'axis',
            x: left - em * 0.4,
            y: base - height * part,
            'text-anchor': 'end',
            'dominant-baseline': 'central',
          },
          percent(top * part).replace(' %', '%'),
        ),
      ),
    ),
    bars,
    falls > 0
      ? s(
          'g',
          { class: 'cut' },
          s('line', { x1: x, x2: x, y1: em * 0.3, y2: base + em * 0.4 }),
          s('text', { x: x + em * 0.3, y: em * 0.9 }, 'cut'),
        )
      : null,
  );
}
