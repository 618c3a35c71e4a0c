/** Choices by chance: the same seed chooses the same. */

/** Splits one seed into many: each thread and each client has its own. */
export function seedOf(...parts: readonly number[]): number {
  let mixed = 0x2545f491
  for (const part of parts) mixed = scramble(mixed ^ Math.imul(part + 1, 0x85ebca6b))
  return mixed
}

export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  /** 32 bits. */
  bits(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0
    return scramble(this.#state)
  }

  /** A whole number from 0 on, less than this. */
  below(limit: number): number {
    return Math.floor((this.bits() / 2 ** 32) * limit)
  }

  /** A whole number from `least` to `most`. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1)
  }

  chance(share: number): boolean {
    return this.bits() < share * 2 ** 32
  }

  one<T>(list: readonly T[]): T {
    const at = this.below(list.length)
    const found = list[at]
    if (found === undefined && !(at in list)) throw new RangeError('an empty list has nothing to choose')
    return found as T
  }

  /** Bytes that are not all the same, at little cost. */
  bytes(length: number): Uint8Array<ArrayBuffer> {
    const step = 1 + 2 * this.below(126)
    let value = this.below(256)
    const bytes = new Uint8Array(length)
    for (let at = 0; at < length; at += 1) {
      bytes[at] = value
      value += step + (at >> 8)
    }
    return bytes
  }
}

/** Each bit of the result hangs on all bits of the number. */
function scramble(number: number): number {
  let mixed = number
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
  return (mixed ^ (mixed >>> 15)) >>> 0
}
