/** The text of images of PTX: an image that is loaded again, by whatever simulation, is compared and not decoded. */
import { sameBytes } from '../foundation/base/bytes.js'

/** A text and the image from which it was decoded. Whoever has it keeps both. */
export interface ImageText {
  readonly text: string
  /** A copy of the image: its owner may change it. */
  readonly image: Uint8Array
}

/** The text of the image loaded last of each length. */
const latest = new Map<number, WeakRef<ImageText>>()
const collected = new FinalizationRegistry(({ byteLength, made }: { byteLength: number; made: WeakRef<ImageText> }) => {
  if (latest.get(byteLength) === made) latest.delete(byteLength)
})

/** The text of an image, which ends at its first NUL, or with the image. */
export function imageText(image: Uint8Array): ImageText {
  const byteLength = image.length
  const known = latest.get(byteLength)?.deref()
  if (known !== undefined && sameBytes(known.image, image)) return known
  const end = image.indexOf(0)
  const text = new TextDecoder().decode(end < 0 ? image : image.subarray(0, end))
  const found: ImageText = { text, image: image.slice() }
  const made = new WeakRef(found)
  latest.set(byteLength, made)
  collected.register(found, { byteLength, made })
  return found
}
