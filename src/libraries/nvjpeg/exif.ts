/** The orientation that a camera has written into a JPEG file, as Exif 3.0 lays it out: a TIFF file of its own within a segment. */

/** What the segment begins with, and where the TIFF file in it begins. */
const EXIF = 'Exif\0\0'
/** A directory of TIFF is the number of its entries and the entries, each a tag, a type, the number of values, and a value or its offset. */
const LITTLE_ENDIAN = 0x4949
const BIG_ENDIAN = 0x4d4d
const MAGIC = 42
const ENTRY_BYTES = 12
const TAG_ORIENTATION = 0x0112
const TYPE_SHORT = 3

/**
 * The number that an APP1 segment gives as orientation. Undefined: it is no Exif, is damaged, or says none. As browsers do, this takes only one
 * SHORT of the first directory; a damaged segment refuses no file, since the pixels do not depend on it.
 */
export function orientationOf(segment: Uint8Array): number | undefined {
  if (String.fromCharCode(...segment.subarray(0, EXIF.length)) !== EXIF) return undefined
  const tiff = segment.subarray(EXIF.length)
  const view = new DataView(tiff.buffer, tiff.byteOffset, tiff.byteLength)
  if (view.byteLength < 8) return undefined
  const order = view.getUint16(0)
  if (order !== LITTLE_ENDIAN && order !== BIG_ENDIAN) return undefined
  const little = order === LITTLE_ENDIAN
  if (view.getUint16(2, little) !== MAGIC) return undefined
  const directory = view.getUint32(4, little)
  if (directory + 2 > view.byteLength) return undefined
  // A directory that claims more entries than the segment holds is read as far as it goes.
  const entries = Math.min(
    view.getUint16(directory, little),
    Math.floor((view.byteLength - directory - 2) / ENTRY_BYTES),
  )
  for (let index = 0; index < entries; index++) {
    const entry = directory + 2 + ENTRY_BYTES * index
    if (view.getUint16(entry, little) !== TAG_ORIENTATION) continue
    if (view.getUint16(entry + 2, little) !== TYPE_SHORT || view.getUint32(entry + 4, little) !== 1) return undefined
    return view.getUint16(entry + 8, little)
  }
  return undefined
}
