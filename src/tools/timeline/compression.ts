/** Compressed timelines. node:zlib takes milliseconds to load, and few programs need it. */
const zlib = () => process.getBuiltinModule('node:zlib')

export const gzip = (text: string): Uint8Array => zlib().gzipSync(text)

/** Compresses the concatenated parts, in zlib's format, and returns them as base64. */
export const deflateToBase64 = (parts: readonly Uint8Array[]): string =>
  zlib().deflateSync(Buffer.concat(parts)).toString('base64')
