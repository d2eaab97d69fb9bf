/**
 * The API of the service (docs/serving.md). Answers are JSON; streams are server-sent events, read from `fetch`,
 * because an EventSource can neither POST nor send a key. Paths are relative: the service may be mounted below another.
 */

import { busy, change } from './busy.js';

/** Kept until the tab is closed. */
let key = sessionStorage.getItem('key') ?? '';
/** Asks the person for a key; set by the app. @type {(message: string) => Promise<string|null>} */
let askForKey = async () => null;

/** @param {(message: string) => Promise<string|null>} ask */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

/** An answer that is not a result. Its message is a sentence for the person. */
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** How often a request is repeated while a model is loading, and the most seconds in between. */
const [PATIENCE, LONGEST_PAUSE] = [8, 4];

/** Characters of an event that takes a while to parse. */
const LARGE = 200_000;

async function request(path, { body, signal } = {}) {
  for (let attempt = 1; ; attempt += 1) {
    const headers = {
      ...(body ? { 'Content-Type': 'application/json' } : {}),
      ...(key ? { Authorization: `Bearer ${key}` } : {}),
    };
    let response;
    try {
      response = await fetch(path, {
        method: body ? 'POST' : 'GET',
        headers,
        body: body && JSON.stringify(body),
        signal,
      });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ApiError('The service does not answer. Is `weft serve` still running?', 0);
    }
    if (response.ok) return response;
    if (response.status === 503 && attempt < PATIENCE && response.headers.has('Retry-After')) {
      await pause(Math.min(Number(response.headers.get('Retry-After')) || 1, LONGEST_PAUSE), signal);
      continue;
    }
    const message =
      (await response.json().then(
        (answer) => answer.error,
        () => null,
      )) ?? `The service answered ${response.status}.`;
    if (response.status === 401) sessionStorage.removeItem('key');
    const given = response.status === 401 ? await askForKey(message) : null;
    if (!given) throw new ApiError(message, response.status);
    key = given;
    sessionStorage.setItem('key', key);
  }
}

/** Wait some seconds, or until the request is given up. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
}

function json(path, options) {
  return busy(request(path, options).then((response) => response.json()));
}

/** The events of a stream that ends by itself. */
async function* search(path, options) {
  change(1);
  try {
    yield* events(path, options);
  } finally {
    change(-1);
  }
}

/**
 * The events of a stream.
 * @returns {AsyncGenerator<{event: string, data: Object}>}
 */
async function* events(path, options) {
  const response = await request(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (buffer + value).replaceAll('\r\n', '\n').split('\n\n');
      buffer = blocks.pop();
      for (const block of blocks) {
        const isLarge = block.length > LARGE;
        if (isLarge) await pause(0); // so that reading, parsing and drawing are separate tasks
        const event = parseEvent(block);
        if (isLarge) await pause(0);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** One event of a stream; null for a comment that keeps the connection open. */
function parseEvent(block) {
  let event = 'message';
  const data = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) event = line.slice(6).trim();
    if (line.startsWith('data:')) data.push(line.slice(5).trimStart());
  }
  return data.length ? { event, data: JSON.parse(data.join('\n')) } : null;
}

const of = (model) => `api/models/${encodeURIComponent(model)}`;

export const service = () => json('api/service');
export const models = () => json('api/models');
export const settings = () => json('api/settings');
export const translate = (body, signal) => json('api/translate', { body, signal });
export const translateStream = (body, signal) => search('api/translate/stream', { body, signal });
export const heads = (body, signal) => json('api/heads', { body, signal });
export const walk = (body, signal) => json('api/walk', { body, signal });
export const positions = (model, length) => json(`${of(model)}/positions?length=${length}`);
export const neighbors = (model, values) => json(`${of(model)}/neighbors?${new URLSearchParams(values)}`);
export const tokens = (model, values) => json(`${of(model)}/tokens?${new URLSearchParams(values)}`);
export const training = () => json('api/training');
export const trainingStream = (name, signal) => events(`api/training/${encodeURIComponent(name)}/stream`, { signal });
