/** A loader for webpack and Rspack, which look for it by the name of its module. */
import { isCuError } from './diagnostics.js'
import { type CuPluginOptions, compilerOf } from './plugins.js'

/** What the loader uses of webpack. */
export interface CuLoaderContext {
  /** The file. */
  readonly resourcePath: string
  /** The options of the rule. */
  getOptions(): CuPluginOptions
  /**
   * Builds again when this file changes.
   * @param file Its path.
   */
  addDependency(file: string): void
}

/**
 * A loader for webpack and Rspack: modules import files of CUDA C++, and those of Python that have Triton kernels. They are built again when a file or one of its headers
 * changes. The rule's options are those of `cuRollup()`.
 * @param this What webpack gives.
 * @returns a promise of the module's JavaScript
 * @throws {Error} (as a rejection) as `compileCu()`
 */
export async function cuLoader(this: CuLoaderContext): Promise<string> {
  try {
    const { module, includes } = await compilerOf(this.getOptions())(this.resourcePath)
    for (const include of includes) this.addDependency(include)
    return module
  } catch (error) {
    if (isCuError(error)) for (const include of error.includes) this.addDependency(include)
    throw error
  }
}
