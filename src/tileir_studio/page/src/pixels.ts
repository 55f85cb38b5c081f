// Pixels as the server sends them, and where they lie in a picture.

import type { Size } from "./formula-protocol.js";

/** Top, left, height and width, in pixels. */
export type Visible = [number, number, number, number];

export function imageOf(size: Size, content: Uint8Array<ArrayBuffer>): ImageData {
  const [height, width] = size;
  return new ImageData(new Uint8ClampedArray(content.buffer, content.byteOffset, content.byteLength), width, height);
}

/** Returns a picture of a size with a part of it written anew; what is around the part stays what it was before. */
export function patched(
  before: ImageData | null,
  [height, width]: Size,
  [top, left, rows, columns]: Visible,
  content: Uint8Array<ArrayBuffer>,
): ImageData {
  const fits = before !== null && before.width === width && before.height === height;
  const picture = fits ? new ImageData(before.data, width, height) : new ImageData(width, height);
  for (let row = 0; row < rows; row++) {
    const line = content.subarray(row * columns * 4, (row + 1) * columns * 4);
    picture.data.set(line, ((top + row) * width + left) * 4);
  }
  return picture;
}

/** The part of a picture that is seen through a window onto it, right of the wipe; null where that is nearly all. */
export function visibleOf(
  picture: { width: number; height: number },
  scale: number,
  window: { left: number; top: number; width: number; height: number },
  wipe: number,
): Visible | null {
  const start = Math.max(window.left / scale, (picture.width * wipe) / 100);
  const [left, top] = [Math.max(0, Math.floor(start)), Math.max(0, Math.floor(window.top / scale))];
  const right = Math.min(picture.width, Math.ceil((window.left + window.width) / scale));
  const bottom = Math.min(picture.height, Math.ceil((window.top + window.height) / scale));
  const seen = Math.max(0, right - left) * Math.max(0, bottom - top);
  return seen === 0 || seen > 0.9 * picture.width * picture.height ? null : [top, left, bottom - top, right - left];
}
