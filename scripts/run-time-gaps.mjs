// What the tests find missing in Bun and Deno, and not in Node: a whole file, or the tests whose title contains `test`.
const GAPS = []

export const gapsOf = (name) => GAPS.filter(({ on }) => on.includes(name)).map((gap) => ({ ...gap }))
