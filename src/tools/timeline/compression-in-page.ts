/** Takes the place of compression.ts in a page, which can compress by promises alone. */
import { stateError } from '../../foundation/base/errors.js'

export function gzip(_text: string): Uint8Array {
  throw stateError('ERR_UNSUPPORTED', 'A compressed file cannot be had in a browser')
}

/** The most bytes of a block in the format; ADLER is the modulus of its checksum. */
const BLOCK = 65_535
const ADLER = 65_521

/** Encodes the parts in blocks that are stored as they are, since browsers compress by promises alone. */
export function deflateToBase64(parts: readonly Uint8Array[]): string {
  const pieces: string[] = ['\x78\x01']
  const put = (...bytes: number[]): void => void pieces.push(String.fromCharCode(...bytes))
  let [a, b] = [1, 0]
  for (const part of parts) {
    for (let at = 0; at < part.length; at += BLOCK) {
      const block = part.subarray(at, at + BLOCK)
      const [low, high] = [block.length & 255, block.length >> 8]
      put(0, low, high, ~low & 255, ~high & 255)
      for (const byte of block) {
        a = (a + byte) % ADLER
        b = (b + a) % ADLER
      }
      for (let from = 0; from < block.length; from += 4096) put(...block.subarray(from, from + 4096))
    }
  }
  put(1, 0, 0, 255, 255, b >> 8, b & 255, a >> 8, a & 255)
  return btoa(pieces.join(''))
}
