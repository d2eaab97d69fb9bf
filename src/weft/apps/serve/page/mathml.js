/**
 * Formulas that the service has sent as MathML, which browsers draw themselves. They are built anew, element by element,
 * from a list of what is allowed: nothing else that an answer holds becomes part of the page.
 */

const MATHML = 'http://www.w3.org/1998/Math/MathML';
const TAGS = new Set(
  ('math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mmultiscripts ' +
    'mtable mtr mtd mstyle mpadded mphantom menclose')
    .split(' '),
);
const ATTRIBUTES = new Set(
  ('displaystyle mathvariant stretchy accent accentunder width height depth fence separator form movablelimits ' +
    'linethickness largeop lspace rspace symmetric minsize maxsize columnalign columnspacing rowspacing scriptlevel dir')
    .split(' '),
);

/**
 * @param {string} markup a `math` element
 * @param {string} label what a screen reader says where it does not read MathML
 * @returns {Element|null} null if it is not well formed, or holds anything else
 */
export function formula(markup, label) {
  const [root] = new DOMParser().parseFromString(markup, 'application/xhtml+xml').children;
  const math = root?.localName === 'math' ? copy(root) : null;
  math?.setAttribute('aria-label', label);
  return math;
}

function copy(element) {
  if (!TAGS.has(element.localName)) return null;
  const made = document.createElementNS(MATHML, element.localName);
  for (const { name, value } of element.attributes) if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) {
      made.append(child.nodeValue);
      continue;
    }
    const part = child.nodeType === Node.ELEMENT_NODE ? copy(child) : null;
    if (!part) return null;
    made.append(part);
  }
  return made;
}
