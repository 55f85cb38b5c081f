// The designer in notebooks, as anywidget loads it: the kernel answers instead of a server.

import { bare, type Connection, Refused } from "./connection.js";
import type { Designer } from "./designer.js";
import "./designer.js";
import type { FormulaEvents, FormulaHandlers, Parts } from "./formula-protocol.js";
import type { Fault, Start, Upload } from "./protocol.js";

/** What anywidget gives: state that the kernel shares, and messages. */
interface Model {
  get: (name: string) => unknown;
  set: (name: string, value: unknown) => void;
  save_changes: () => void;
  send: (message: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]) => void;
  on: (name: string, take: (...found: never[]) => void) => void;
  off: (name: string, take: (...found: never[]) => void) => void;
}

interface Message {
  number: number;
  event: string;
  view: unknown;
  names: string[];
}

type Take = (message: Message, parts: Parts) => void;

/** Talks to the kernel of a model; `close` ends that. */
function overModel(model: Model): Connection & { close: () => void } {
  const waiting = new Map<number, Take>();
  let numbers = 0;
  const take = (message: Message, buffers: DataView[]) => {
    const parts: Parts = {};
    message.names.forEach((name, number) => {
      const { buffer, byteOffset, byteLength } = buffers[number] as DataView;
      parts[name] = new Uint8Array(buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer);
    });
    waiting.get(message.number)?.(message, parts);
  };
  model.on("msg:custom", take);

  function ask(asked: object, buffers: ArrayBuffer[], take: Take): Promise<void> {
    const number = ++numbers;
    return new Promise((resolve) => {
      waiting.set(number, (message, parts) => {
        if (message.event !== "done") return take(message, parts);
        waiting.delete(number);
        resolve();
      });
      model.send({ ...asked, number }, undefined, buffers);
    });
  }

  return {
    ownsPage: false,
    begin: async () =>
      ({ ...(model.get("_start") as Start), formula: model.get("value") as string }),
    run: (job: string, request: object, _: string, handlers: FormulaHandlers) =>
      ask({ job, request }, [], ({ event, view }, parts) =>
        (handlers[event as keyof FormulaEvents] as ((view: unknown, parts: Parts) => void) | undefined)?.(view, parts),
      ),
    upload: async (file: Blob) => {
      let found: Upload | null = null;
      let faults: Fault[] = [bare("the kernel does not answer")];
      await ask({ job: "upload" }, [await file.arrayBuffer()], ({ event, view }) => {
        if (event === "upload") found = view as Upload;
        else faults = view as Fault[];
      });
      if (found === null) throw new Refused(faults);
      return found;
    },
    close: () => model.off("msg:custom", take),
  };
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const designer = document.createElement("tileir-designer") as Designer;
  const connection = overModel(model);
  designer.connection = connection;
  designer.addEventListener("text-shown", () => {
    if (designer.text === model.get("value")) return;
    model.set("value", designer.text);
    model.save_changes();
  });
  const changed = () => designer.replace(model.get("value") as string);
  model.on("change:value", changed);
  el.classList.add("tileir", "tileir-widget");
  el.append(designer);
  return () => {
    model.off("change:value", changed);
    connection.close();
    designer.remove();
  };
}

export default { render };
