// What `node --expose-gc` gives the tests.
globalThis.gc = () => Bun.gc(true)
