/* Linked besides where all objects of a program make notes of their stores (tutticc finds out). */
const char tutti_dsm_all_noted = 1;
