/**
 * The text of a file: lines, a column of a table (TSV, CSV, JSON Lines) or a document (docs/texts.md), each also
 * compressed (.gz). A Word document, which is no text, is a data URL, as the API accepts it.
 */

import { count } from './labels.js';

/** The formats of documents, as the service names them: title and endings. The first ending is that of a saved file. */
export const DOCUMENTS = {
  html: ['HTML', ['html', 'htm', 'xhtml']],
  xml: ['XML', ['xml']],
  markdown: ['Markdown', ['md', 'markdown']],
  docx: ['Word', ['docx']],
  srt: ['Subtitles (SubRip)', ['srt']],
  vtt: ['Subtitles (WebVTT)', ['vtt']],
  po: ['gettext', ['po', 'pot']],
  xliff: ['XLIFF', ['xliff', 'xlf']],
  json: ['JSON', ['json']],
};
const ENDINGS = new Map(Object.entries(DOCUMENTS).flatMap(([format, [, endings]]) => endings.map((ending) => [ending, format])));
/** What a file chooser offers. */
export const ACCEPTED = ['txt', 'tsv', 'csv', 'jsonl', 'ndjson', 'gz', ...ENDINGS.keys()].map((ending) => `.${ending}`).join(',');
/** Names of the column of sources, in a header or in JSON. */
const SOURCE = ['source', 'src', 'input', 'text', 'sentence'];
const BINARY = /\0/;
/** Bytes of a request beside the file that it carries. */
const JSON_BYTES = 1000;

/**
 * @param {File} file
 * @param {number} most bytes that are read
 * @returns {Promise<{text: string, format: string|null}>} format: that of a document; null for lines, a source in each
 */
export async function readTextFile(file, most) {
  if (file.name.toLowerCase().endsWith('.docx')) return { text: await dataUrl(file, most), format: 'docx' };
  const isCompressed = file.name.endsWith('.gz');
  const text = await readText(file, isCompressed, most);
  if (BINARY.test(text)) throw new Error(`${file.name} is no text. Lines of text, tables (TSV, CSV, JSON Lines) and documents (${Object.values(DOCUMENTS).map(([title]) => title).join(', ')}) can be opened, and all but Word documents also as .gz.`);
  const name = isCompressed ? file.name.slice(0, -3) : file.name;
  const ending = name.split('.').at(-1).toLowerCase();
  if (ENDINGS.has(ending)) return { text, format: ENDINGS.get(ending) };
  return { text: sourcesOf(text, ending, file.name), format: null };
}

/** Lines of text; of a table its column of sources. */
function sourcesOf(text, ending, file) {
  if (ending === 'jsonl' || ending === 'ndjson') return fromJson(text, file).join('\n');
  if (ending === 'tsv') return column(lines(text).map((line) => line.split('\t'))).join('\n');
  if (ending === 'csv') return column(csvRows(text)).join('\n');
  return text;
}

/** The content of a file as a data URL, which may have a number of bytes at most. */
function dataUrl(file, most) {
  const size = Math.floor((3 * most) / 4) - JSON_BYTES;
  if (file.size > size) throw tooLarge(file, size);
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(reader.result));
    reader.addEventListener('error', () => reject(new Error(`${file.name} cannot be read.`)));
    reader.readAsDataURL(file);
  });
}

function tooLarge(file, most) {
  return new Error(`${file.name} has more than ${count(most)} bytes, which is all that can be opened here. Use weft translate for large files.`);
}

async function readText(file, isCompressed, most) {
  let stream = file.stream();
  if (isCompressed) stream = stream.pipeThrough(new DecompressionStream('gzip'));
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let [text, bytes] = ['', 0];
  for (;;) {
    const { value, done } = await reader.read().catch(() => {
      throw new Error(`${file.name} cannot be read: it is damaged, or not what its name says.`);
    });
    if (done) return text + decoder.decode();
    bytes += value.length;
    if (bytes > most) {
      reader.cancel().catch(() => {});
      throw tooLarge(file, most);
    }
    text += decoder.decode(value, { stream: true });
  }
}

function lines(text) {
  return text.replace(/^\ufeff/, '').replace(/[\r\n]+$/, '').split(/\r\n|\r|\n/);
}

/** The column of sources: the one that the header names, or else the first. */
function column(rows) {
  const named = (rows[0] ?? []).findIndex((name) => SOURCE.includes(name.trim().toLowerCase()));
  return (named < 0 ? rows : rows.slice(1)).map((row) => oneLine(row[Math.max(named, 0)] ?? ''));
}

function fromJson(text, file) {
  return lines(text).map((line, index) => {
    let value;
    try {
      value = JSON.parse(line);
    } catch {
      throw new Error(`${file}:${index + 1} is no JSON.`);
    }
    const found = typeof value === 'string' ? value : SOURCE.map((name) => value?.[name]).find((one) => typeof one === 'string');
    if (found === undefined) throw new Error(`${file}:${index + 1} has none of the fields ${SOURCE.join(', ')}.`);
    return oneLine(found);
  });
}

/** The rows of a CSV file, whose cells may be quoted. */
function csvRows(text) {
  const rows = [[]];
  for (const [, cell, quoted, end] of lines(text).join('\n').matchAll(/(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/g)) {
    rows.at(-1).push(cell === undefined ? quoted : cell.replaceAll('""', '"'));
    if (end === '') break;
    if (end === '\n') rows.push([]);
  }
  return rows;
}

function oneLine(text) {
  return text.replace(/\s*[\r\n]+\s*/g, ' ');
}
