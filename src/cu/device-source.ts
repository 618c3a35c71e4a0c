/**
 * What of a file of CUDA C++ is for the GPU. NVRTC refuses functions and variables of the host, so they are replaced by spaces, which keeps
 * every line where it was; and behind each kernel stands a probe (signature-probe.ts), which makes the compiler say what its parameters are.
 */
import { EditedText, type Origin } from './edited-text.js'
import { type AddedText, FoundInSources } from './found-in-sources.js'
import { KernelMacros } from './kernel-macros.js'
import { SourceDeclarations } from './source-declarations.js'
import { type SourcePosition, tokensOf } from './source-text.js'

/** The files of one compilation, the included ones before those that include them. */
export class DeviceSources extends FoundInSources {
  readonly #sources = new Map<string, EditedText>()
  readonly #macros = new KernelMacros()

  /**
   * Returns what of a file is for the GPU.
   * @param names The compiler's names of the headers that it includes.
   */
  add(file: string, text: string, names: ReadonlyMap<string, string> = new Map()): string {
    this.#macros.read(text)
    const expanded = this.#macros.expanded(text)
    const tokens = tokensOf(expanded)
    const edits = new EditedText(expanded, tokens)
    edits.renameHeaders(names)
    new SourceDeclarations(this, file, tokens, edits).read()
    this.#sources.set(file, edits)
    return edits.edited()
  }

  /** The text of a file, as people wrote it but for macros that make kernels; empty for one that is not here. */
  textOf(file: string): string {
    return this.#sources.get(file)?.text ?? ''
  }

  /** Returns the place in the source of one in the edited text; undefined for a file that is not here. */
  originOf(file: string, at: SourcePosition): Origin | undefined {
    return this.#sources.get(file)?.originOf(at)
  }

  /** The probes and marks that were added to a line. */
  addedIn(file: string, line: number): readonly AddedText[] {
    return this.#sources.get(file)?.addedIn(line) ?? []
  }
}
