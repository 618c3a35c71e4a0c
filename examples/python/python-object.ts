/** A Python object that JavaScript holds: it lives in Python for as long as this one is reachable here. */
import type { PythonStreamLike } from 'cuda-streams'
import type { Python } from './python.js'

const HELD = '_held_by_node'
let counted = 0

const collected = new FinalizationRegistry<() => void>((release) => release())

/**
 * Made from the value of an expression. Give it as `owner` to what is wrapped around its memory or its stream, and
 * Python keeps that alive as long as the wrapper does.
 */
export class PythonObject implements Disposable {
  readonly python: Python
  /** Stands for the object in Python code. */
  readonly expression: string
  readonly #release: () => void

  constructor(python: Python, expression: string) {
    counted += 1
    const key = counted
    this.python = python
    this.expression = `${HELD}[${key}]`
    python.run(`globals().setdefault('${HELD}', {})`)
    python.run(`${this.expression} = (${expression})`)
    this.#release = () => python.run(`${HELD}.pop(${key}, None)`)
    collected.register(this, this.#release, this)
  }

  /** Lets Python collect it. May be called twice. */
  close(): void {
    collected.unregister(this)
    this.#release()
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/** A Python stream with the `__cuda_stream__` method, as cuda-streams takes it. */
export class PythonStream extends PythonObject implements PythonStreamLike {
  __cuda_stream__(): readonly [version: number, handle: number] {
    // A handle has 47 bits, so JSON carries it exactly.
    return this.python.json(`${this.expression}.__cuda_stream__()`) as [number, number]
  }
}
