/**
 * A matrix as pixels, for maps that would be too many or too small as cells: heads, positions.
 *
 * Drawn on a canvas in the color of the page's scale: from the least value, transparent, to the largest, opaque.
 */

import { h, s } from '../dom.js';

/** The most rows or columns of a matrix that is drawn; larger ones are pooled. */
const PIXELS = 400;
/** Colors by the scheme and the name. */
const colors = new Map();

/** A color of the page in the present scheme, as red, green, blue; `name`: scale or mark. */
export function probe(name) {
  const key = `${name} ${document.documentElement.dataset.theme} ${matchMedia('(prefers-color-scheme: dark)').matches}`;
  if (!colors.has(key)) colors.set(key, readColor(name));
  return colors.get(key);
}

function readColor(name) {
  const element = h('span', { class: `${name}-probe` });
  document.body.append(element);
  const { color } = getComputedStyle(element);
  element.remove();
  return color
    .match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
}

/**
 * @param {number[][]} matrix
 * @param {{low?: number, high?: number, label: string}} options the values at the ends of the scale
 * @returns {HTMLCanvasElement}
 */
export function heat(matrix, { low = 0, high = 1, label }) {
  const [rows, columns] = [matrix.length, matrix[0]?.length ?? 0];
  const canvas = h('canvas', {
    class: 'heat',
    width: Math.max(columns, 1),
    height: Math.max(rows, 1),
    role: 'img',
    'aria-label': label,
  });
  const context = canvas.getContext('2d');
  const image = context.createImageData(Math.max(columns, 1), Math.max(rows, 1));
  const [red, green, blue] = probe('scale');
  matrix.forEach((row, y) =>
    row.forEach((value, x) => {
      const part = Math.min(Math.max((value - low) / (high - low || 1), 0), 1);
      image.data.set([red, green, blue, Math.round(255 * part ** 0.8)], 4 * (y * columns + x));
    }),
  );
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A matrix of at most PIXELS × PIXELS: the largest weight of each block. */
export function pooled(weights) {
  const block = Math.ceil(Math.max(weights.length, weights[0]?.length ?? 0) / PIXELS);
  if (block <= 1) return weights;
  const matrix = [];
  for (let row = 0; row < weights.length; row += 1) {
    const line = (matrix[Math.floor(row / block)] ??= new Array(Math.ceil(weights[0].length / block)).fill(0));
    weights[row].forEach((weight, column) => {
      const at = Math.floor(column / block);
      if (weight > line[at]) line[at] = weight;
    });
  }
  return matrix;
}

/**
 * Canvases with captions as one picture, in rows.
 * @param {{canvas: HTMLCanvasElement, caption: string}[][]} rows
 * @returns {SVGSVGElement}
 */
export function sheet(rows, side = 160) {
  const [gap, line] = [14, 18];
  const columns = Math.max(...rows.map((row) => row.length));
  const size = [columns * (side + gap), rows.length * (side + gap + line)];
  return s(
    'svg',
    { viewBox: `0 0 ${size[0]} ${size[1]}`, class: 'sheet' },
    rows.map((row, y) =>
      row.map(({ canvas, caption }, x) => {
        const scale = side / Math.max(canvas.width, canvas.height);
        const [left, top] = [x * (side + gap), y * (side + gap + line)];
        const box = { x: left, y: top + line, width: canvas.width * scale, height: canvas.height * scale };
        return s(
          'g',
          {},
          s('text', { x: left, y: top + line * 0.7, class: 'label' }, caption),
          s('rect', { ...box, class: 'frame' }),
          s('image', { ...box, href: enlarged(canvas), preserveAspectRatio: 'none', 'image-rendering': 'pixelated' }),
        );
      }),
    ),
  );
}

/** The pixels of a canvas, each made larger, so that viewers that smooth pictures still show them sharp. */
function enlarged(canvas, times = 8) {
  const large = h('canvas', { width: canvas.width * times, height: canvas.height * times });
  const context = large.getContext('2d');
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, large.width, large.height);
  return large.toDataURL('image/png');
}
