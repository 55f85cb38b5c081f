// Numbers as people read them.

function scaled(value: number, step: number, units: string[]): string {
  let unit = 0;
  while (value >= step * 0.9995 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const digits = value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3);
  return `${digits}${units[unit]}`;
}

export function count(value: number): string {
  return scaled(value, 1000, ["", " k", " M", " G", " T", " P"]);
}

export function bytes(value: number): string {
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
}

export function seconds(value: number): string {
  if (value <= 0) return "0 s";
  return value < 1 ? scaled(value * 1e9, 1000, [" ns", " µs", " ms"]) : `${value.toPrecision(3)} s`;
}

export function percent(value: number): string {
  return `${value >= 0 ? "+" : "−"}${Math.abs(value * 100).toFixed(0)} %`;
}

export function number(value: number): string {
  return Number.parseFloat(value.toPrecision(6)).toString();
}
