/** What typed PTX exports: asked of a worker that has the compiler, some time after the last letter. It is started when somebody types PTX. */
import type { Declared, DeclareRequest, KernelTexts, Reply } from '../run/messages.js'
import { openWorker } from './open-worker.js'

/** Milliseconds without a letter. */
const PAUSE = 300

export class Declarations {
  #worker: Worker | undefined
  #timer = 0
  #asked: KernelTexts = {}

  constructor(private readonly take: (files: Readonly<Record<string, Declared>>) => void) {}

  /** Takes the answer for these texts, and no longer that for those before. */
  ask(texts: KernelTexts): void {
    if (JSON.stringify(texts) === JSON.stringify(this.#asked)) return
    this.#asked = texts
    clearTimeout(this.#timer)
    if (Object.keys(texts).length === 0) this.take({})
    else this.#timer = window.setTimeout(() => this.#post(texts), PAUSE)
  }

  #post(texts: KernelTexts): void {
    if (this.#worker === undefined) {
      this.#worker = openWorker()
      this.#worker.addEventListener('message', ({ data }: MessageEvent<Reply>) => {
        // Answers come in the order of the questions: one for texts of before is replaced by the next.
        if (data.what === 'declared') this.take(data.files)
      })
    }
    const request: DeclareRequest = { what: 'declare', kernels: texts }
    this.#worker.postMessage(request)
  }
}
