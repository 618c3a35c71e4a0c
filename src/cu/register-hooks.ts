/** Lets Node import files of CUDA C++: by synchronous hooks where it has them (22.15, 23.5), else by hooks on a thread of their own. */
import * as nodeModule from 'node:module'
import { loadNow } from './node-hooks.js'

const registerHooks: unknown = 'registerHooks' in nodeModule ? nodeModule.registerHooks : undefined

if (typeof registerHooks === 'function') registerHooks({ load: loadNow })
else nodeModule.register(new URL('./node-hooks.js', import.meta.url))
