/**
 * The path to which a process writes the file that an environment variable names. Child processes inherit the variable, so each
 * process needs a path of its own. Whether the file can be written is checked before there is anything to write.
 */
import { invalidValue, messageOf } from './errors.js'
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

/**
 * Throws ERR_INVALID_ARG_VALUE for a file that could not be written at the end of a run: its folder is missing, say. Makes no file.
 * @param what What would be written, for the message.
 */
export function checkWritable(path: string, what: string): void {
  const { statSync } = process.getBuiltinModule('node:fs')
  try {
    const there = statSync(path, { throwIfNoEntry: false })
    if (there?.isDirectory() === true) throw new Error('EISDIR: it is a folder')
    if (there === undefined) checkFolder(process.getBuiltinModule('node:path').dirname(path))
    else checkAccess(path)
  } catch (error) {
    throw cannotBeWritten(what, error)
  }
}

/** Throws ERR_INVALID_ARG_VALUE for a folder in which no file can be made. */
export function checkWritableFolder(folder: string, what: string): void {
  try {
    checkFolder(folder)
  } catch (error) {
    throw cannotBeWritten(what, error)
  }
}

export const cannotBeWritten = (what: string, error: unknown): Error =>
  Object.assign(invalidValue(`${what} cannot be written: ${messageOf(error)}`), { cause: error })

function checkFolder(folder: string): void {
  if (!process.getBuiltinModule('node:fs').statSync(folder).isDirectory()) {
    throw new Error(`ENOTDIR: ${folder} is no folder`)
  }
  checkAccess(folder)
}

function checkAccess(path: string): void {
  const { accessSync, constants } = process.getBuiltinModule('node:fs')
  accessSync(path, constants.W_OK)
}
