// Runs programs with a function that watches in place of each member of the library's classes. It stands in the stacks of reports.
import { parentPort, workerData } from 'node:worker_threads'
import * as library from '../../../dist/src/entry-points/index.js'

const { run } = await import(workerData.runner)
const used = new Set()

const classes = Object.values(library).filter(
  (value) => typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value)),
)
/** Versions of Node describe them in different words. */
const names = new Map([
  [Symbol.dispose, 'Symbol.dispose'],
  [Symbol.asyncDispose, 'Symbol.asyncDispose'],
])
const nameOf = (key) => (typeof key === 'string' ? key : `[${names.get(key) ?? key.description}]`)

/** By the program itself, or by String() or console.log() there. */
const isOwn = (key) =>
  typeof key === 'symbol' ||
  new Error().stack
    .split('\n')
    .slice(3, 5)
    .some((frame) => frame.includes('program.ts'))

function watch(target, key, ownerOf) {
  const property = Object.getOwnPropertyDescriptor(target, key)
  if (property.configurable !== true) return
  for (const kind of ['value', 'get', 'set']) {
    const original = property[kind]
    if (typeof original !== 'function') continue
    property[kind] = function (...given) {
      const result = Reflect.apply(original, this, given)
      const owner = ownerOf(this)
      if (owner !== undefined && isOwn(key)) used.add(owner + nameOf(key))
      return result
    }
  }
  Object.defineProperty(target, key, property)
}

const prototypes = new Set()
for (const one of classes) {
  for (const key of Reflect.ownKeys(one)) {
    if (!['length', 'name', 'prototype'].includes(key)) watch(one, key, () => `${one.name}.`)
  }
  for (let at = one.prototype; at !== Object.prototype && at !== Error.prototype; at = Object.getPrototypeOf(at)) {
    prototypes.add(at)
  }
}
for (const prototype of prototypes) {
  // What a class has of one that is not public is its own.
  const owner = classes.find((one) => one.prototype === prototype)
  const ownerOf = (self) => {
    const found = owner ?? classes.find((one) => one === self?.constructor)
    return found === undefined ? undefined : `${found.name}#`
  }
  for (const key of Reflect.ownKeys(prototype)) if (key !== 'constructor') watch(prototype, key, ownerOf)
}

// As in in-node.mjs.
for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, () => {})
for (const code of workerData.codes) await run(code, () => {})
parentPort.postMessage({ found: [...used] })
