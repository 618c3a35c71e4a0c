/** `node:timers/promises`: by timers, which an exploration sees in a browser too. */
const after = <T>(milliseconds: number, value?: T): Promise<T | undefined> =>
  new Promise((resolve) => void globalThis.setTimeout(() => resolve(value), milliseconds))

export { after as setTimeout }
export const setImmediate = <T>(value?: T): Promise<T | undefined> => after(0, value)
