/** What is done to the text that NVRTC makes before it goes into a module. */

/**
 * The version of PTX that the oldest driver reads which the library works with (CUDA 12.5), and what a text for sm_90 or less may have
 * that only later versions know. A driver refuses a later version even where nothing of it is used.
 */
const OLDEST_VERSION = 8.5
const NEWEST_TARGET = 90
const NEWER =
  /\.(?:unified|abi_preserve\w*|blocksareclusters|used_bytes_mask)\b|"frequency |\.(?:v4\.(?:f64|[bsu]64)|v8\.)|\b(?:tcgen05|clusterlaunchcontrol|st\.bulk|multimem\.cp|elect\.one)\b|\.async\.mmio|\.shared::cta\.global\.mbarrier|\.(?:e2m1|e2m3|e3m2|ue8m0)|\.L2::evict_first\.v/

/**
 * Lowers the version to what the text needs. This cannot change what the code does: a later version adds forms, and means the same by
 * those that were there; an assembler refuses a form that its version lacks.
 */
export function forOldDrivers(ptx: string): string {
  const [, version = '0'] = /^\.version (\S+)$/m.exec(ptx) ?? []
  const [, target = '999'] = /^\.target sm_(\d+)/m.exec(ptx) ?? []
  if (Number(version) <= OLDEST_VERSION || Number(target) > NEWEST_TARGET || NEWER.test(ptx)) return ptx
  return ptx.replace(/^\.version .*$/m, `.version ${OLDEST_VERSION}`)
}

/** Gives names of the text others. */
export function renamed(ptx: string, names: ReadonlyMap<string, string>): string {
  let text = ptx
  for (const [from, to] of names) {
    if (from !== to)
      text = text.replace(new RegExp(`(?<![\\w$])${from.replaceAll('$', '\\$')}(?=_param_\\d+\\b|\\b)`, 'g'), to)
  }
  return text
}

const OWN_VARIABLE = /^\.(?:global|const) [^;=]*?(?<name>[\w$]+)(?:\[\d*\])*(?: = [^;]*)?;\n/gm

/** Takes variables away that no other file could know and nothing here uses: constants of CUDA's headers, thousands of them. */
export function withoutUnusedVariables(ptx: string): string {
  const uses = new Map<string, number>()
  for (const [word] of ptx.matchAll(/[A-Za-z_$][\w$]*/g)) uses.set(word, (uses.get(word) ?? 0) + 1)
  return ptx.replace(OWN_VARIABLE, (text, name: string) => (uses.get(name) === 1 ? '' : text))
}

/** The PTX without the compiler's comments and the folders of this machine. */
export const withoutPlaces = (ptx: string): string =>
  ptx.replace(/^\/\/.*\n/gm, '').replace(/^(\s*\.file\s+\d+ ")[^"]*[/\\]/gm, '$1')
