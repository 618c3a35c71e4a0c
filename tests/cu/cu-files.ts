/** The files of CUDA C++ of these tests: written as the files of other people's projects are, with their hosts' halves. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from '../helpers/root.js'
import '../../src/entry-points/cu-register.js'

export const cuFile = (name: string): string => join(root, 'tests', 'cu', 'files', name)

/** Imports a file as a program does. The caller says what it exports, as its declarations do in a program. */
export const importCu = async <T>(name: string): Promise<T> => import(pathToFileURL(cuFile(name)).href)
