// The server, as the page talks to it: jobs whose events come one after the other, uploads and pictures.

import type { FormulaEvents, FormulaHandlers, Parts } from "./formula-protocol.js";
import { bare, type Connection, Refused } from "./connection.js";
import type { Events, Fault, Handlers, Start, Upload } from "./protocol.js";

/** The part of the address after `#` is never sent; the page alone knows it. */
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const headers = { "x-tileir-token": token };

async function refusal(answer: Response): Promise<Refused> {
  const text = await answer.text();
  try {
    return new Refused((JSON.parse(text) as { faults: Fault[] }).faults);
  } catch {
    return new Refused([bare(text || `the server answered ${answer.status}`)]);
  }
}

/** Runs a job: the handlers are called with its events. Jobs of one lane replace one another; `stop` ends one. */
export async function job(
  name: string,
  request: object,
  lane: string,
  handlers: Handlers,
  stop: AbortSignal | null = null,
): Promise<void> {
  try {
    const answer = await ask(name, request, lane, headers, stop);
    for await (const [event, view] of events(answer.body)) {
      (handlers[event] as ((view: unknown) => void) | undefined)?.(view);
    }
  } catch (error) {
    if (stop?.aborted !== true) handlers.faults?.(faultsOf(error));
  }
}

/** Runs a job whose events have bytes beside them, as src/tileir_studio/serve/frames.py packs them. */
async function frameJob(name: string, request: object, lane: string, handlers: FormulaHandlers): Promise<void> {
  try {
    const answer = await ask(name, request, lane, { ...headers, accept: "application/octet-stream" });
    for await (const [event, view, parts] of frames(answer.body)) {
      (handlers[event] as ((view: unknown, parts: Parts) => void) | undefined)?.(view, parts);
    }
  } catch (error) {
    handlers.faults?.(faultsOf(error), {});
  }
}

type Answered = Response & { body: ReadableStream<Uint8Array> };

async function ask(
  name: string,
  request: object,
  lane: string,
  asked: Record<string, string>,
  stop: AbortSignal | null = null,
): Promise<Answered> {
  const body = JSON.stringify({ ...request, lane: `${page}:${lane}`, turn: ++turns });
  const answer = await fetch(`/api/jobs/${name}`, { method: "POST", headers: asked, body, signal: stop });
  if (!answer.ok || answer.body === null) throw await refusal(answer);
  return answer as Answered;
}

function faultsOf(error: unknown): Fault[] {
  return error instanceof Refused ? error.faults : [bare("the studio does not answer; is it still running?")];
}

async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<[keyof FormulaEvents, unknown, Parts]> {
  const reader = body.getReader();
  let waiting: Uint8Array[] = [];
  let length = 0;
  let ended = false;

  /** Returns so many bytes, of their own; null at the end. */
  async function take(count: number): Promise<Uint8Array<ArrayBuffer> | null> {
    while (length < count && !ended) {
      const { done, value } = await reader.read();
      ended = done;
      if (value !== undefined) {
        waiting.push(value);
        length += value.length;
      }
    }
    if (length < count) return null;
    const taken = new Uint8Array(count);
    let filled = 0;
    while (filled < count) {
      const first = waiting.shift() as Uint8Array;
      const part = first.subarray(0, count - filled);
      taken.set(part, filled);
      filled += part.length;
      if (part.length < first.length) waiting = [first.subarray(part.length), ...waiting];
    }
    length -= count;
    return taken;
  }

  for (;;) {
    const size = await take(4);
    const header = size && (await take(new DataView(size.buffer).getUint32(0, true)));
    if (header === null) return;
    const message = JSON.parse(new TextDecoder().decode(header)) as Message;
    const parts: Parts = {};
    for (const [name, count] of Object.entries(message.pictures)) parts[name] = (await take(count)) ?? new Uint8Array();
    yield [message.event, message.view, parts];
  }
}

interface Message {
  event: keyof FormulaEvents;
  view: unknown;
  pictures: Record<string, number>;
}

const page = crypto.randomUUID();
/** Connections may overtake one another, so that requests say which is newer. */
let turns = 0;

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<[keyof Events, unknown]> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const text = decoder.decode(value, { stream: true });
    parts.push(text);
    if (!text.includes("\n")) continue; // joining what grows would take quadratic time
    const blocks = parts.join("").split("\n\n");
    parts = [blocks.pop() ?? ""];
    for (const block of blocks) {
      const end = block.indexOf("\n");
      yield [block.slice("event: ".length, end) as keyof Events, JSON.parse(block.slice(end + 1 + "data: ".length))];
    }
  }
}

/** What the page begins with. */
export async function begin(): Promise<Start> {
  const answer = await fetch("/api/start", { headers });
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()) as Start;
}

/** Gives a file to the server, which keeps it for a while. */
export async function upload(file: Blob): Promise<Upload> {
  const answer = await fetch("/api/uploads", { method: "POST", headers, body: file });
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()) as Upload;
}

/** The address of a picture that an event named; who asked for it revokes it. */
export async function picture(name: string): Promise<string> {
  const answer = await fetch(`/api/pictures/${name}`, { headers });
  if (!answer.ok) throw await refusal(answer);
  return URL.createObjectURL(await answer.blob());
}

/** Gives somebody a text as a file. */
export function save(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text]));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** What this tab has remembered, so that a page that is loaded again has what somebody wrote. */
export function remembered(): Partial<Start> {
  return JSON.parse(sessionStorage.getItem(token) ?? "{}") as Partial<Start>;
}

export function remember(state: Partial<Start>): void {
  sessionStorage.setItem(token, JSON.stringify(state));
}

/** The server that this page came from. */
export const http: Connection = { ownsPage: true, begin, run: frameJob, upload };
