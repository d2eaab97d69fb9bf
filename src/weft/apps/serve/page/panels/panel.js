/** A titled part of a view, with a sentence of help, and buttons that save its picture. */

import { h, uniqueId } from '../dom.js';
import { saveButtons } from '../save.js';

/**
 * @param {string} title
 * @param {{help?: string, figure?: () => SVGSVGElement|null, name?: string, class?: string, tools?: Node[]}} options
 *   figure: what the buttons save, under `name`
 * @param {...Node} children
 */
export function panel(title, { help, figure, name, class: kind = '', tools = [] }, ...children) {
  const id = uniqueId('panel');
  return h(
    'section',
    { class: `panel ${kind}`, 'aria-labelledby': id },
    h(
      'header',
      {},
      h('h2', { id }, title),
      h('span', { class: 'tools' }, tools, figure ? saveButtons(figure, name) : null),
    ),
    help ? h('p', { class: 'hint' }, help) : null,
    children,
  );
}

/** A part that can be scrolled, also by keyboard. */
export function scrollable(label, ...children) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, children);
}
