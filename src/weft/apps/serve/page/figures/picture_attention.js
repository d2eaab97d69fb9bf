/**
 * A picture, and the cells of it that a token was read from: the stronger the color, the larger the weight.
 */

import { s } from '../dom.js';
import { percent } from '../labels.js';

/** Cells with a smaller share of the largest weight are not drawn. */
const FAINTEST = 0.02;
const STRONGEST = 0.6;
/** Pictures that are lower than this are shown with sharp pixels. */
const LOW = 120;

/**
 * @typedef {Object} Picture
 * @property {string} address a data URL
 * @property {number} width
 * @property {number} height
 * @property {number} rows of cells
 * @property {number} columns
 * @property {[number, number]} cell height and width of a cell, in pixels of the picture
 */

/**
 * @param {Picture} picture
 * @param {number[]|null} weights of the cells, row by row; null: none is colored
 * @param {{label: string, scale: number}} options scale: pixels of the screen for one of the picture
 * @returns {SVGSVGElement}
 */
export function pictureAttention(picture, weights, { label, scale }) {
  const { address, width, height, columns, cell } = picture;
  const [down, across] = cell;
  const peak = Math.max(...(weights ?? []), 1e-12);
  const cells = (weights ?? []).flatMap((weight, index) => {
    if (weight < FAINTEST * peak) return [];
    const [x, y] = [(index % columns) * across, Math.floor(index / columns) * down];
    return s(
      'rect',
      {
        class: 'cell',
        x,
        y,
        width: Math.min(across, width - x),
        height: Math.min(down, height - y),
        'fill-opacity': ((STRONGEST * weight) / peak).toFixed(3),
      },
      s('title', {}, percent(weight)),
    );
  });
  return s(
    'svg',
    {
      class: height < LOW ? 'read-picture low' : 'read-picture',
      viewBox: `0 0 ${width} ${height}`,
      width: Math.round(width * scale),
      height: Math.round(height * scale),
      role: 'img',
      'aria-label': label,
    },
    s('image', { href: address, width, height, preserveAspectRatio: 'none' }),
    cells,
  );
}
