// Python counts characters, JavaScript counts units of UTF-16: characters beyond U+FFFF are one and two.

const beyond = /[\ud800-\udbff][\udc00-\udfff]/g;

/** Returns what turns places in `text` as the server counts them into those of the page. */
export function fromServer(text: string): (place: number) => number {
  const pairs: number[] = [];
  for (const match of text.matchAll(beyond)) pairs.push(match.index - pairs.length);
  if (pairs.length === 0) return (place) => place;
  return (place) => place + pairs.filter((start) => start < place).length;
}

/** Returns a place of the page as the server counts it. */
export function toServer(text: string, place: number): number {
  return place - (text.slice(0, place).match(beyond)?.length ?? 0);
}
