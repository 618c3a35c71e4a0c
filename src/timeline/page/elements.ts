/** Elements of the page: made, and found. */

/** A list longer than this is for a program to read, not for people. */
export const MOST_LISTED = 200

export function element<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  properties: Partial<HTMLElementTagNameMap[T]> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[T] {
  const made = Object.assign(document.createElement(tag), properties)
  made.append(...children)
  return made
}

export const hint = (text: string): HTMLElement => element('p', { className: 'hint' }, text)

export function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id)
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`)
  return found
}
