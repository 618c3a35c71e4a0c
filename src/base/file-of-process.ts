/** Where a process writes the file that an environment variable names: those that it starts inherit the variable. */
import { isMainThread, process, threadId } from './node-modules.js'

/**
 * The whole path: the current directory may change later. `%p` in the file is the number of the process, and a worker, which has a driver of its own,
 * has a file of its own, with its number before the extension.
 */
export function fileOfProcess(file: string, extension: string): string {
  const name = file.slice(0, file.length - extension.length)
  const ofThread = isMainThread ? file : `${name}.worker-${threadId}${extension}`
  return process.getBuiltinModule('node:path').resolve(ofThread.replaceAll('%p', String(process.pid)))
}
