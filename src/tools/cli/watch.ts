/** The program that the Python package runs beside a traced process: `watch.js FOLDER PROCESS`. It ends when its input does. */
import '../../foundation/base/node-version.js'
import { createInterface } from 'node:readline'
import { watch } from './watched.js'

const [folder, number] = process.argv.slice(2)
if (folder === undefined || number === undefined)
  throw new Error('watch.js takes the folder of a trace and the number of its process, and has none')
await watch(folder, number, createInterface(process.stdin), console.log)
