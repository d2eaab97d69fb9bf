/**
 * Saves a figure as SVG or PNG, as it is on the screen. The styles of the page are written into the copy as
 * attributes, so that the file looks the same elsewhere; it holds no script and refers to nothing.
 */

import { h, s } from './dom.js';

const PROPERTIES = [
  'fill',
  'fill-opacity',
  'stroke',
  'stroke-width',
  'stroke-opacity',
  'stroke-dasharray',
  'stroke-linecap',
  'opacity',
  'font-family',
  'font-size',
  'font-weight',
  'font-style',
  'text-anchor',
  'dominant-baseline',
  'direction',
  'visibility',
];
const MARGIN = 12;
const PIXELS = 2;

/**
 * Two buttons that save a figure.
 * @param {() => SVGSVGElement|null} figure what to save
 * @param {string} name of the file, without its suffix
 */
export function saveButtons(figure, name) {
  const button = (format, save) =>
    h(
      'button',
      {
        type: 'button',
        class: 'quiet',
        title: `Save this picture as ${format}`,
        'aria-label': `Save ${name} as ${format}`,
        on: {
          click: async () => {
            const drawn = figure();
            if (drawn) await save(drawn, name);
          },
        },
      },
      format,
    );
  return h(
    'span',
    { class: 'save', role: 'group', 'aria-label': `Save ${name}` },
    h('span', { 'aria-hidden': 'true' }, 'Save'),
    button('SVG', saveSvg),
    button('PNG', savePng),
  );
}

/** Offer a text or a blob as a file. */
export function download(content, name, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = h('a', { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function saveSvg(figure, name) {
  download(text(figure), `${name}.svg`, 'image/svg+xml');
}

async function savePng(figure, name) {
  const copy = standalone(figure);
  const address = URL.createObjectURL(
    new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' }),
  );
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = h('canvas', {
    width: PIXELS * copy.getAttribute('width'),
    height: PIXELS * copy.getAttribute('height'),
  });
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  canvas.toBlob((blob) => download(blob, `${name}.png`), 'image/png');
}

/** A figure as the text of an SVG file. */
export function text(figure) {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(standalone(figure))}`;
}

function standalone(figure) {
  const copy = figure.cloneNode(true);
  const stage = figure.isConnected ? null : h('div', { class: 'stage', 'aria-hidden': 'true' }, figure);
  if (stage) document.body.append(stage); // only what is in the document has styles
  copyStyles(figure, copy);
  stage?.remove();
  const [, , width, height] = figure.getAttribute('viewBox').split(' ').map(Number);
  copy.setAttribute('width', width + 2 * MARGIN);
  copy.setAttribute('height', height + 2 * MARGIN);
  copy.setAttribute('viewBox', `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`);
  const background = getComputedStyle(document.querySelector('.panel') ?? document.body).backgroundColor;
  copy.prepend(
    s('rect', { x: -MARGIN, y: -MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN, fill: background }),
  );
  return copy;
}

function copyStyles(from, to) {
  const styles = getComputedStyle(from);
  for (const property of PROPERTIES) to.setAttribute(property, styles.getPropertyValue(property));
  for (const name of ['class', 'tabindex', 'style']) to.removeAttribute(name);
  for (let index = 0; index < from.children.length; index += 1) copyStyles(from.children[index], to.children[index]);
}
