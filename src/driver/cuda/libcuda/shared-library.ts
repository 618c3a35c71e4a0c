/** A shared library that is loaded, and its functions. */
import { bindAll, type CFunction, declaration } from './c-functions.js'
import { layer } from './layer.js'

export class SharedLibrary {
  /** The program itself and what it began with, the C library among them. */
  static readonly ofProcess = new SharedLibrary(0)

  private constructor(private readonly handle: number) {}

  /** Loads it for good: threads of its own may run in it. Throws an Error with what the loader says. */
  static open(path: string): SharedLibrary {
    return new SharedLibrary(layer().open(path))
  }

  /** The address of a symbol, or undefined. */
  find(name: string): number | undefined {
    return layer().symbol(this.handle, name) || undefined
  }

  /** Functions that return an int, by their names, with the parameters that C has. Throws an Error when one is missing. */
  functions<N extends string>(parameters: Readonly<Record<N, string>>): Readonly<Record<N, CFunction>> {
    const names = Object.keys(parameters) as N[]
    return bindAll(names.map((name) => declaration(name, this.#address(name), parameters[name])))
  }

  /** Functions that return text, which C keeps. */
  texts<N extends string>(parameters: Readonly<Record<N, string>>): Readonly<Record<N, (argument: number) => string>> {
    const { text } = layer()
    const names = Object.keys(parameters) as N[]
    const functions = bindAll(names.map((name) => declaration(name, this.#address(name), parameters[name], 'address4')))
    const made = names.map((name) => [name, (argument: number) => text(functions[name](argument))] as const)
    return Object.fromEntries(made) as Record<N, (argument: number) => string>
  }

  #address(name: string): number {
    const address = this.find(name)
    if (address === undefined) throw new Error(`There is no function ${name}`)
    return address
  }
}
