declare module '*?text' {
  export const text: string
}

/** A kernel of the lessons, in CUDA C++: programs get what it was compiled to. */
declare module '*.cu' {
  export const ptx: string
}
