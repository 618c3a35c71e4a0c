/**
 * What the library uses of Node's modules and globals where it can run in a page, too. There node-modules-in-page.ts takes the place of
 * this file, by `browser` in package.json.
 */
import { Buffer } from 'node:buffer'
import process from 'node:process'
import * as workerThreads from 'node:worker_threads'

export { AsyncLocalStorage, AsyncResource, createHook } from 'node:async_hooks'
export { constants } from 'node:buffer'
export { type Channel, channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
export { fileURLToPath } from 'node:url'
export { inspect, types } from 'node:util'
export { isMainThread, threadId } from 'node:worker_threads'
export { Buffer, process, workerThreads }
