// What rendermime takes from @jupyterlab/apputils: the sanitizer. The rest of that package is JupyterLab's shell.
export { Sanitizer } from '@jupyterlab/apputils/lib/sanitizer';
