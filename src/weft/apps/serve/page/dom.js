/**
 * Elements without markup: text from a model only ever becomes text nodes, so nothing in it can become an element.
 */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * An HTML element.
 * @param {string} tag
 * @param {Object} [attributes] `on`: listeners by event; `style`: properties by name; null, undefined and false: left out
 * @param {...(Node|string|number|null|Array)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * An SVG element, like `h`.
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === 'style') {
      for (const [property, setting] of Object.entries(value)) element.style.setProperty(property, setting);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(
    ...children
      .flat(3)
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))),
  );
  return element;
}

/** Replace what an element contains. */
export function replace(element, ...children) {
  element.replaceChildren(
    ...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Replace what an element contains; the focus stays on the button that stands where the focused one stood. */
export function refresh(element, ...children) {
  const buttons = () => [...element.querySelectorAll('button')];
  const focused = buttons().indexOf(document.activeElement);
  replace(element, ...children);
  if (focused >= 0) buttons()[focused]?.focus();
  return element;
}

/** Pixels of the page's text size, in which figures are drawn: they grow with it on a large screen. */
export function unit() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) * 0.875;
}

/** Whether the person asked for less motion. */
export function reducedMotion() {
  return matchMedia('(prefers-reduced-motion: reduce)').matches;
}

/** A function that runs once the calls to it have paused for some milliseconds. */
export function debounce(milliseconds, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds, ...values);
  };
}

let names = 0;

/** An id that no other element has, to connect labels with what they label. */
export function uniqueId(prefix) {
  names += 1;
  return `${prefix}-${names}`;
}

/**
 * Move the focus between items with the arrow keys; only one of them is reached by Tab.
 * @param {Element} container
 * @param {(item: Element, key: string) => Element|null|undefined} next the item that a key leads to from another
 */
export function arrowKeys(container, next) {
  container.addEventListener('keydown', (event) => {
    const item = event.target.closest('[tabindex]');
    if (!item || !container.contains(item) || event.altKey || event.ctrlKey || event.metaKey) return;
    const target = next(item, event.key);
    if (!target) return;
    event.preventDefault();
    item.setAttribute('tabindex', '-1');
    target.setAttribute('tabindex', '0');
    target.focus();
  });
}
