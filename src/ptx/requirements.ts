/**
 * The requirements of a form of PTX: the least version of the text, and the least target. An assembler refuses a text whose own version or target
 * forbids what it has, whatever the GPU. The numbers were found by giving each form of the table to ptxas 13.0.
 */
import { isLater } from '../foundation/base/versions.js'
import { type Instruction, inWords, type PtxFunction, type PtxText } from './syntax.js'

/** A pattern of opcodes with their modifiers, the version that brought it (times ten), and its least target. */
type Rule = readonly [pattern: RegExp, version: number, target: number]

const ACCESS = '^(?:ld|ldu|st|atom|red)\\.(?:.*\\.)?'
const access = (modifiers: string): RegExp => new RegExp(`${ACCESS}(?:${modifiers})(?:\\.|$)`)

/** The requirements of forms: the greatest version and the greatest target of all rules that fit a form count. */
const RULES: readonly Rule[] = [
  // Rules for modifiers of many forms.
  [/(?:^|\.|::)cluster(?:\.|$)/, 78, 90],
  [/^(?!cp\.).*::cta(?:\.|$)/, 78, 0],
  [/\.param::(?:entry|func)/, 83, 0],
  [/\.L2::cache_hint/, 74, 80],
  [/\.L2::(?:64|128)B/, 74, 75],
  [/\.L2::256B/, 74, 80],
  [/\.L1::/, 74, 70],
  [/\.b128(?:\.|$)/, 83, 70],
  [access('weak'), 0, 70],
  [access('relaxed|acquire|release|acq_rel'), 0, 70],
  [access('mmio'), 82, 70],
  [/^(?:ld|st)\.(?:.*\.)?(?:v8\.|v4\.[busf]64)/, 88, 100],
  [/^(?:ld|st)\.(?:.*\.)?L2::evict_/, 88, 100],
  // Rules for arithmetic.
  [/^(?:add|min|max)\.(?:relu\.)?[us]16x2/, 80, 90],
  [/^(?:min|max)\.(?:relu\.s32|s32\.relu)/, 80, 90],
  [/^(?:min|max)\.(?!.*bf16).*xorsign\.abs/, 72, 86],
  [/^(?:min|max)\.(?:.*\.)?xorsign\.abs/, 72, 86],
  [/^(?:min|max)\.(?:.*\.)?NaN\.(?:.*\.)?f32$/, 70, 80],
  [/^(?:min|max)\.(?:.*\.)?b?f16(?:x2)?$/, 70, 80],
  [/^(?:add|sub|mul|fma)\.(?:.*\.)?f32x2$/, 86, 100],
  [/^(?:add|sub|mul|fma|neg|setp|set)\.(?:.*\.)?f16(?:x2)?(?:\.|$)/, 0, 53],
  [/^(?:add|sub|mul)\.(?:.*\.)?bf16(?:x2)?$/, 78, 90],
  [/^fma\.(?:.*\.)?bf16(?:x2)?$/, 70, 80],
  [/^fma\.(?:.*\.)?relu\./, 70, 80],
  [/^abs\.(?:.*\.)?f16(?:x2)?$/, 65, 53],
  [/^(?:abs|neg)\.(?:.*\.)?bf16(?:x2)?$/, 70, 80],
  [/^(?:setp|set)\.(?:.*\.)?bf16(?:x2)?(?:\.|$)/, 78, 90],
  [/^set\.(?:.*\.)?(?:[bus](?:16|32))\.f16(?:x2)?$/, 65, 53],
  [/^tanh\.approx\.(?:f32|f16)/, 70, 75],
  [/^tanh\.approx\.bf16/, 78, 90],
  [/^ex2\.(?:.*\.)?f16/, 70, 75],
  [/^ex2\.(?:.*\.)?bf16/, 78, 90],
  [/^(?:bmsk|szext)\./, 76, 70],
  [/^lop3\.(?:or|and)\./, 82, 70],
  [/^(?:add|sub|fma)\.(?:.*\.)?f32\.b?f16$/, 86, 100],
  [/^dp[24]a\./, 0, 61],
  // Rules for conversions.
  [/^cvt\.(?:rn|rz)\.(?:relu\.)?(?:satfinite\.)?b?f16x2\.f32/, 70, 80],
  [/^cvt\.(?:.*\.)?bf16\.f32/, 70, 80],
  [/^cvt\.(?:.*\.)?relu\.(?:.*\.)?f16\.f32/, 70, 80],
  [/^cvt\.(?:.*\.)?satfinite\.(?:.*\.)?b?f16(?:x2)?\.f32/, 81, 70],
  [/^cvt\.(?:rn\.)?f32\.bf16$/, 71, 80],
  [/^cvt\.(?:.*\.)?bf16\.(?!f32)\w+$/, 78, 90],
  [/^cvt\.(?!(?:rn\.)?f32\.bf16$).*\.bf16$/, 78, 90],
  [/^cvt\.rna\.(?:.*\.)?tf32/, 70, 80],
  [/^cvt\.rna\.satfinite\.tf32/, 81, 80],
  [/^cvt\.r[nz]\.(?:.*\.)?tf32/, 78, 90],
  [/^cvt\.r[nz]\.satfinite\.(?:.*\.)?tf32/, 86, 100],
  [/^cvt\.(?:.*\.)?(?:e4m3x2|e5m2x2)(?:\.|$)/, 78, 89],
  [/^cvt\.(?:.*\.)?(?:e2m1x2|e2m3x2|e3m2x2|ue8m0x2)(?:\.|$)/, 86, 100],
  [/^cvt\.pack\./, 65, 72],
  [/^cvt\.pack\.sat\.[us][24]\./, 65, 75],
  [/^(?:cvta|isspacep)\.(?:to\.)?param/, 77, 70],
  // Rules for memory.
  [/^(?:atom|red)\.(?:.*\.)?(?:cta|gpu|sys)\./, 0, 60],
  [/^(?:atom|red)\.(?:.*\.)?add\.(?:.*\.)?f64/, 0, 60],
  [/^(?:atom|red)\.(?:.*\.)?add\.noftz\.(?:.*\.)?f16x2/, 62, 60],
  [/^(?:atom|red)\.(?:.*\.)?add\.noftz\.(?:.*\.)?f16(?:\.|$)/, 63, 70],
  [/^(?:atom|red)\.(?:.*\.)?add\.noftz\.(?:.*\.)?bf16/, 78, 90],
  [/^(?:atom|red)\.(?:.*\.)?(?:min|max)\.noftz/, 81, 90],
  [/^(?:atom|red)\.(?:.*\.)?v[248]\./, 81, 90],
  [/^atom\.(?:.*\.)?cas\.(?:.*\.)?b16/, 63, 70],
  [/^atom\.(?:.*\.)?b128/, 83, 90],
  [/^atom\.sys\.(?:.*\.)?b128|^atom\.(?:.*\.)?sys\.(?:.*\.)?b128/, 84, 90],
  [/^prefetch\.(?:.*\.)?L2::evict/, 74, 80],
  [/^prefetch\.(?:.*\.)?tensormap/, 80, 90],
  [/^tensormap\./, 83, 90],
  [/^(?:applypriority|discard|createpolicy)\./, 74, 80],
  [/^fence\./, 0, 70],
  [/^fence\.proxy\.alias/, 75, 70],
  [/^fence\.proxy\.async/, 80, 90],
  [/^fence\.proxy\.tensormap/, 83, 90],
  [/^fence\.mbarrier_init/, 80, 90],
  [/^nanosleep\./, 62, 70],
  [/^cp\.async\./, 70, 80],
  [/^cp\.(?:reduce\.)?async\.bulk\./, 80, 90],
  [/^cp\.async\.bulk\.(?:tensor\.\dd\.)?shared::cta\.global/, 86, 90],
  [/^(?:st|red)\.async\./, 81, 90],
  [/^(?:mapa|getctarank)\./, 78, 90],
  [/^mbarrier\./, 70, 80],
  [/^mbarrier\.try_wait/, 78, 90],
  [/^mbarrier\.test_wait\.parity/, 71, 80],
  [/^mbarrier\.(?:.*\.)?(?:acquire|release)\./, 80, 80],
  [/^mbarrier\.(?:arrive|arrive_drop|test_wait|try_wait)\.(?:.*\.)?relaxed\./, 86, 90],
  [/^mbarrier\.(?:expect_tx|complete_tx|arrive\.expect_tx|arrive_drop\.expect_tx)/, 80, 90],
  [/^(?:alloca|stacksave|stackrestore)\./, 73, 52],
  [/^setmaxnreg\./, 80, 90],
  [/^griddepcontrol\./, 78, 90],
  // Rules for threads that meet.
  [/^(?:bar|barrier)\.cta\./, 78, 0],
  [/^match\./, 0, 70],
  [/^redux\./, 70, 80],
  [/^redux\.(?:.*\.)?f32/, 86, 100],
  [/^activemask/, 62, 0],
  [/^elect\./, 80, 90],
  // Rules for matrices.
  [/^wmma\./, 63, 70],
  [/^wmma\.(?:.*\.)?(?:s8|u8|s32)(?:\.|$)/, 63, 72],
  [/^wmma\.(?:.*\.)?(?:s4|u4|b1|m8n8k32|m8n8k128)(?:\.|$)/, 63, 75],
  [/^wmma\.(?:.*\.)?(?:bf16|tf32|f64|m16n16k8|m8n8k4)(?:\.|$)/, 70, 80],
  [/^wmma\.(?:.*\.)?and\.popc/, 71, 80],
  [/^mma\.(?:.*\.)?m16n8k8\.(?:.*\.)?f16\.f16/, 65, 75],
  [/^mma\.(?:.*\.)?m8n8k(?:16|32)\./, 65, 75],
  [/^mma\.(?:.*\.)?m8n8k128\./, 70, 75],
  [/^mma\.(?:.*\.)?m16n8k(?:4|16|32|64|128|256)\./, 70, 80],
  [/^mma\.(?:.*\.)?(?:bf16|tf32)\./, 70, 80],
  [/^mma\.(?:.*\.)?m8n8k4\.(?:.*\.)?f64/, 70, 80],
  [/^mma\.(?:.*\.)?m8n8k4\.(?:.*\.)?f16/, 64, 70],
  [/^mma\.(?:.*\.)?m16n8k(?:4|8|16)\.(?:.*\.)?f64/, 78, 90],
  [/^mma\.(?:.*\.)?and\.popc/, 71, 80],
  [/^mma\.(?:.*\.)?(?:e4m3|e5m2)\./, 84, 89],
  [/^mma\.(?:.*\.)?(?:m16n8k16\.(?:.*\.)?|f16\.)(?:e4m3|e5m2)\./, 87, 89],
  [/^ldmatrix\./, 65, 75],
  [/^stmatrix\./, 78, 90],
  [/^movmatrix\./, 78, 75],
  [/^wgmma\./, 80, 90],
  [/^wgmma\.mma_async\.sp\./, 82, 90],
]

/** The forms that only the targets with the features of one architecture have. */
const OF_ONE_ARCHITECTURE =
  /^(?:setmaxnreg\.|tensormap\.replace\.|redux\.(?:.*\.)?f32|cvt\.(?:.*\.)?(?:e2m1x2|e2m3x2|e3m2x2|ue8m0x2))/
/** The forms that a single target has. */
const OF_ONE_TARGET: readonly (readonly [pattern: RegExp, target: string])[] = [[/^wgmma\./, 'sm_90a']]
/** The minimum and maximum of f32, whose forms with three values need more than those with two. */
const LEAST_OF_THREE = /^(?:min|max)\.(?:.*\.)?f32$/

export interface Requirements {
  /** The least version, such as '7.8'. */
  readonly version: string
  /** The least target as a number, such as 90, or 0. */
  readonly target: number
  readonly ofOneArchitecture: boolean
  /** The only target that has the form; undefined if later ones have it, too. */
  readonly only: string | undefined
}

const known = new Map<string, Requirements>()

/**
 * The requirements of a form.
 * @param operands The number of the instruction's operands
 */
export function requirementsOf(opcode: string, operands = 0): Requirements {
  const isOfThree = operands === 4 && LEAST_OF_THREE.test(opcode)
  const key = isOfThree ? `${opcode} of three` : opcode
  const found = known.get(key)
  if (found !== undefined) return found
  let [version, target] = isOfThree ? [88, 100] : [0, 0]
  for (const [pattern, leastVersion, leastTarget] of RULES) {
    if (!pattern.test(opcode)) continue
    version = Math.max(version, leastVersion)
    target = Math.max(target, leastTarget)
  }
  const requirements = {
    version: `${Math.floor(version / 10)}.${version % 10}`,
    target,
    ofOneArchitecture: OF_ONE_ARCHITECTURE.test(opcode),
    only: OF_ONE_TARGET.find(([pattern]) => pattern.test(opcode))?.[1],
  }
  // The cache has a limit, so that texts from unknown sources cannot fill the memory.
  if (known.size < 10_000) known.set(key, requirements)
  return requirements
}

/** The reason why an assembler refuses functions of a text for one of their forms; undefined if it does not. */
export function whyFormsAreRefused({ version, target }: PtxText, functions: Iterable<PtxFunction>): string | undefined {
  const [, digits = '0', kind = ''] = /^sm_(\d+)([af]?)$/.exec(target) ?? []
  const refusal = (instruction: Instruction, needs: Requirements): string | undefined => {
    const what = `'${instruction.opcode}' at ${inWords(instruction)}`
    if (isLater(needs.version, version))
      return `${what} came with PTX ${needs.version}, and the text is of version ${version}: compile it for a later one`
    if (needs.only !== undefined && needs.only !== target)
      return `${what} is for .target ${needs.only} alone, and the text is for ${target}: compile it for that`
    if (needs.target > Number(digits))
      return `${what} needs .target sm_${needs.target} or later, and the text is for ${target}: compile it for a later one`
    if (needs.ofOneArchitecture && kind === '')
      return `${what} needs a target such as sm_${Math.max(90, Number(digits))}a, and the text is for ${target}: compile it for that`
    return undefined
  }
  const fitting = new Set<Requirements>()
  for (const { body = [] } of functions) {
    for (const instruction of body) {
      const needs = requirementsOf(instruction.opcode, instruction.operands.length)
      if (fitting.has(needs)) continue
      const why = refusal(instruction, needs)
      if (why !== undefined) return why
      fitting.add(needs)
    }
  }
  return undefined
}
