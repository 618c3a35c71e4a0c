/** Handles of objects that others own, the latest so many: their end is not seen. */
const MOST = 4096

export class Latest<H> {
  readonly #handles = new Set<H>()

  add(handle: H): void {
    this.#handles.delete(handle)
    this.#handles.add(handle)
    if (this.#handles.size <= MOST) return
    const [oldest] = this.#handles
    this.#handles.delete(oldest as H)
  }

  has(handle: H): boolean {
    return this.#handles.has(handle)
  }

  delete(handle: H): void {
    if (this.#handles.size > 0) this.#handles.delete(handle)
  }
}
