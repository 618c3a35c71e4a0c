/**
 * Lets a run time import files of CUDA C++, and those of Python that have Triton kernels: Node by synchronous hooks where it has them (22.15, 23.5), else by hooks on a thread of their
 * own, and Bun by a plug-in.
 */
import * as nodeModule from 'node:module'
import { loadNow } from './node-hooks.js'
import { type CuEsbuildPlugin, cuEsbuild } from './plugins.js'

interface BunRunTime {
  plugin(plugin: CuEsbuildPlugin): unknown
}

const isBun = (value: unknown): value is BunRunTime => typeof Reflect.get(Object(value), 'plugin') === 'function'

const bun: unknown = Reflect.get(globalThis, 'Bun')
const registerHooks: unknown = 'registerHooks' in nodeModule ? nodeModule.registerHooks : undefined

if (isBun(bun)) bun.plugin(cuEsbuild({ declarations: false }))
else if (typeof registerHooks === 'function') registerHooks({ load: loadNow })
else nodeModule.register(new URL('./node-hooks.js', import.meta.url), { data: process.argv[1] })
