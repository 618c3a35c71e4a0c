/** A worker with the library. It is named so for the library, which finds its own lines by that. */
export const openWorker = (): Worker =>
  new Worker(new URL('library/foundation/base/stack.js', document.baseURI), { type: 'module' })
