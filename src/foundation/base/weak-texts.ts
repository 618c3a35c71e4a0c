/** What was made of texts, kept by the text for as long as something else has it and garbage collection leaves it. */
export class WeakTexts<V extends object> {
  readonly #values = new Map<string, WeakRef<V>>()
  readonly #collected = new FinalizationRegistry(({ text, value }: { text: string; value: WeakRef<V> }) => {
    if (this.#values.get(text) === value) this.#values.delete(text)
  })

  /** The number of texts that are kept. */
  get size(): number {
    return this.#values.size
  }

  get(text: string): V | undefined {
    return this.#values.get(text)?.deref()
  }

  set(text: string, made: V): void {
    const value = new WeakRef(made)
    this.#values.set(text, value)
    this.#collected.register(made, { text, value })
  }
}
