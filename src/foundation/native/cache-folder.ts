/**
 * The library's folder among the user's caches. Machine code is loaded from it, so it has to belong to this user alone: whoever could write
 * there would choose what this user's programs run. Where it does not, there is no cache.
 */
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, type Stats, statSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { messageOf } from '../base/errors.js'

/** The folder, or why there is no cache. */
export type CacheFolder = { readonly folder: string } | { readonly problem: string }

/** Permissions of a group and of all others to write. */
const WRITABLE_BY_OTHERS = 0o022
/** What is made is for this user alone. */
const FOLDER_MODE = 0o700

/** Makes the folder where it is missing, or one within it. A test gives another `folderOfUser`. */
export function cacheFolder(within = '', folderOfUser: () => string = homedir): CacheFolder {
  try {
    const cache = folderAmongCaches(folderOfUser)
    for (const folder of within === '' ? [cache] : [cache, join(cache, within)]) {
      mkdirSync(folder, { recursive: true, mode: FOLDER_MODE })
      const problem = whyNotOwn(statSync(folder))
      if (problem !== undefined) return { problem: `${folder} ${problem}` }
    }
    return { folder: join(cache, within) }
  } catch (error) {
    return { problem: messageOf(error) }
  }
}

/** The bytes of a file in the cache. Undefined where it is missing, or could have been written by somebody else. */
export function readOwnFile(path: string): Uint8Array | undefined {
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    // The folder's owner is known, and somebody above it may have exchanged it since.
    return whyNotOwn(fstatSync(file)) === undefined ? readFileSync(file) : undefined
  } catch {
    return undefined
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Windows has no numbers of users, and a folder of caches for each. */
function whyNotOwn({ uid, mode }: Stats): string | undefined {
  const user = process.getuid?.()
  if (user === undefined) return undefined
  if (uid !== user) return `belongs to user ${uid}, and this is user ${user}`
  return (mode & WRITABLE_BY_OTHERS) === 0 ? undefined : 'can be written by other users'
}

function folderAmongCaches(folderOfUser: () => string): string {
  const { XDG_CACHE_HOME } = process.env
  if (XDG_CACHE_HOME) return join(XDG_CACHE_HOME, 'cuda-streams')
  const folder = orEmpty(folderOfUser)
  // All users share the temporary folder.
  if (folder === '') return join(tmpdir(), `cuda-streams-${process.getuid?.() ?? 'cache'}`)
  return join(folder, '.cache', 'cuda-streams')
}

/** Users without a folder are numbers, which a container may have for them: `homedir()` throws. */
function orEmpty(folderOfUser: () => string): string {
  try {
    return folderOfUser()
  } catch {
    return ''
  }
}
