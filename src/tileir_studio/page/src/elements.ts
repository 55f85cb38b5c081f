// Elements of the page. A notebook loads them once for each widget, and a name can be given once only.

export function define(name: string, element: CustomElementConstructor): void {
  if (customElements.get(name) === undefined) customElements.define(name, element);
}
