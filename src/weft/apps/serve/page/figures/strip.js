/** A vector as a strip of pixels: positive values in the color of the scale, negative ones in that of marks. */

import { h } from '../dom.js';
import { number } from '../labels.js';
import { probe } from './heat.js';

/**
 * @param {(number|null)[]} values
 * @param {{label: string, peak?: number}} options peak: the value that has the full color; by default the largest
 * @returns {HTMLCanvasElement}
 */
export function strip(values, { label, peak = largest(values) }) {
  const canvas = h('canvas', { class: 'strip', width: Math.max(values.length, 1), height: 1, role: 'img' });
  canvas.setAttribute('aria-label', `${label}: ${describe(values)}`);
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, 1);
  const colors = [probe('mark'), probe('scale')];
  values.forEach((value, index) => {
    const part = Math.min(Math.abs(value ?? 0) / (peak || 1), 1);
    image.data.set([...colors[Number(value > 0)], Math.round(255 * part ** 0.8)], 4 * index);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The largest magnitude. */
export function largest(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value ?? 0)), 0);
}

/** A vector in words: its length, and between which values it lies. */
export function describe(values) {
  if (values.length === 1) return number(values[0], 3);
  const known = values.filter((value) => value !== null);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  return `${values.length} values from ${number(least)} to ${number(most)}, norm ${number(Math.hypot(...known))}`;
}
