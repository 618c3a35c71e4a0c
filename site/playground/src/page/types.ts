/** What the types say: asked of a worker, which is started when it is first needed. */
import type { About, Answer, Completion, Detail, Diagnostic, Question, Signature } from '../types/messages.js'

export class Types {
  /** Is called when other declarations may make other mistakes. */
  changed: () => void = () => {}
  #declarations: Readonly<Record<string, string>> = {}
  #worker: Worker | undefined
  #asked = 0
  readonly #waiting = new Map<number, (answer: Answer) => void>()

  /** Undefined where it could not be looked at. */
  async check(code: string): Promise<readonly Diagnostic[] | undefined> {
    return (await this.#ask({ what: 'check', code, at: 0 })).diagnostics
  }

  async complete(code: string, at: number): Promise<readonly Completion[]> {
    return (await this.#ask({ what: 'complete', code, at })).completions ?? []
  }

  /** What a completion is for. */
  async detail(code: string, at: number, name: string): Promise<Detail | undefined> {
    return (await this.#ask({ what: 'detail', code, at, name })).detail
  }

  async describe(code: string, at: number): Promise<About | undefined> {
    return (await this.#ask({ what: 'describe', code, at })).about
  }

  /** The call around this place; undefined where there is none. */
  async signature(code: string, at: number): Promise<Signature | undefined> {
    return (await this.#ask({ what: 'signature', code, at })).signature
  }

  /** The declarations of files that the page was not built with, or that are others now. */
  declare(files: Readonly<Record<string, string>>): void {
    this.#declarations = files
    if (this.#worker !== undefined) this.changed()
  }

  /** It is large: the page is there before. */
  start(): void {
    if (this.#worker !== undefined) return
    this.#worker = new Worker(new URL('types.js', document.baseURI), { type: 'module' })
    this.#worker.addEventListener('message', ({ data }: MessageEvent<Answer & { id: number }>) => {
      this.#waiting.get(data.id)?.(data)
      this.#waiting.delete(data.id)
    })
  }

  #ask(question: Omit<Question, 'declarations'>): Promise<Answer> {
    this.start()
    this.#asked += 1
    const id = this.#asked
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.#worker?.postMessage({ id, declarations: this.#declarations, ...question })
    })
  }
}
