/** The exports of load-ptx.ts for bundles and pages, where no other file could be loaded later. */
import * as ptx from '../ptx/ptx.js'

export const loadPtx = (): typeof ptx => ptx
